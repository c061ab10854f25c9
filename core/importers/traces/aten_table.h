// Which operators of PyTorch are known, and how the kernels of each follow from
// its arguments.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gpueta::aten {

// How an operator's kernels follow from its arguments.
enum class Kind : std::uint8_t {
  kElementwise,  // over the largest tensor; as many operands as tensors of its size
  kProduct,      // mm, bmm, mv: the last two matrices among the tensors
  kConvolution,
  kConvolutionBackward,
  kAttention,
  kAttentionBackward,
  kNorm,       // over the dims of normalized_shape, or of the weights
  kBatchNorm,  // elementwise over the first tensor
  kGroupNorm,
  kSoftmax,    // along the dim in argument 1
  kReduction,  // along the dims in argument 1
  kPool,
  kResize,
  kEmbedding,
  kSelect,  // as many rows of argument 0 as argument 2 has indices
  kList,    // lists of tensors, element by element
};

struct Entry {
  Kind kind;
  std::string_view op = {};  // vector operator, in the names of core/ops/vector
};

// nullptr for an operator that is not known. Without regard to the underscore of
// in-place variants: "aten::add_" is "aten::add".
const Entry* Find(std::string_view name);

// Names without "aten::", sorted.
std::vector<std::string_view> KnownOps();

// Operators that only make, rename or look at tensors: nothing runs for them,
// apart from what they call.
bool IsBookkeeping(std::string_view name);

}  // namespace gpueta::aten
