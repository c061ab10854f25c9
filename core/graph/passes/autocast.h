// Mixed precision as PyTorch's autocast runs it.
#pragma once

#include "core/graph/graph.h"

namespace gpueta {

// Kernels of an fp32 graph take the type that torch.autocast gives them, `low`
// being fp16 or bf16 (torch.amp, "Autocast Op Reference", CUDA):
//   - products, convolutions, attention and experts, and prelu, run in `low`;
//   - exp, log, pow, reciprocal, softmax, cumsum, sums, norms and losses that are
//     made of them in fp32. RMSNorm, which models write out in fp32, counts as one;
//   - all others in the widest type of what they read. A parameter that is added
//     or multiplied (a position, a scale) is fp32; a bias straight behind a product
//     belongs to the product; batch norm takes its input's type.
// Kernels in fp64 and of integers stay as they are.
//
// What the first two read in another type is cast by a kernel at each use: only
// casts of parameters are kept, for one forward pass. Parameters stay fp32, so
// gradients, optimiser and its state do, too (AddBackward, AddOptimiserStep).
// Kernels that are in 16 bits already have parameters of that type.
// What no node of the graph writes is taken for an fp32 input of the model.
void Autocast(Graph& graph, DType low);

// The source operators of the casts it adds.
inline constexpr std::string_view kAutocastOp = "Autocast";
inline constexpr std::string_view kParameterCastOp = "AutocastParameter";

}  // namespace gpueta
