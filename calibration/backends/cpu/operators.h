// Kernels as oneDNN primitives and loops.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/errors.h"
#include "core/ops/kernel.h"

namespace gpueta {

struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

inline constexpr std::size_t kMaxInputs = 3;

// In bytes, as the operator lays its tensors out (blocked layouts pad
// channels). Unused ones are 0.
struct BufferSizes {
  std::array<std::size_t, kMaxInputs> inputs{};  // activations; the first is the output of the kernel before
  std::size_t weights = 0;                       // what lasts from run to run
  std::size_t output = 0;
  std::size_t scratch = 0;  // intermediate results
};

struct Buffers {
  std::array<std::byte*, kMaxInputs> inputs{};
  std::byte* weights = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
};

// Runs an operator once and waits for its end. Throws dnnl::error if oneDNN
// fails.
using RunOnce = std::function<void()>;

struct CpuOperator {
  BufferSizes sizes;
  std::function<RunOnce(const Buffers&)> bind;  // may be called any number of times
};

// What `work` returns (a status or StatusOr), or INTERNAL if oneDNN throws.
template <class Work>
auto CatchingOneDnn(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const dnnl::error& error) {
    return Internal("oneDNN: {}", error.what());
  }
}

// Whether the processor multiplies this type in hardware.
bool IsNativeOnCpu(DType dtype);

// UNIMPLEMENTED saying what is missing. Cheap.
absl::Status SupportsOnCpu(const Kernel& kernel);

// As SupportsOnCpu, and UNIMPLEMENTED for what oneDNN refuses.
//   gemm: weights packed as oneDNN likes best, no bias; the second operand of
//     a batched product (layer bmm) is a plain activation
//   conv2d: direct algorithm, every tensor in the layout oneDNN likes best as
//     convolutions of one network follow each other, no bias
//   attention: product, mask where causal, softmax, product, each over all
//     keys. Key-value heads that several query heads share are read once for
//     all of them. For decode, keys and values count as weights: between two
//     steps nothing touches the cache of a layer.
//   vector: oneDNN's eltwise, binary, softmax and layer normalization, else
//     loops.h. With one operand, binary operators combine with a scalar.
// fp32; bf16, and int8 for gemm, where the processor has instructions.
absl::StatusOr<CpuOperator> MakeCpuOperator(const Kernel& kernel, const OneDnn& onednn);

}  // namespace gpueta
