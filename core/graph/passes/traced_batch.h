// Another batch of what a profiler recorded at one.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace gpueta {

// Gives a graph without symbols, of kernels that ran at a batch, the symbol
// `batch` with that batch as its default. A trace does not say which dims grow
// with it; taken are
// - images of convolutions, sequences of attention, matrices of batched products;
// - of other products rows, or in gradients of weights the contraction: the size
//   that most products have as either;
// - rows of vector operators, but for tensors of the size of parameters;
// - all work of custom kernels, but for optimisers and collectives.
// A warning says how many kernels do not grow. INVALID_ARGUMENT for a batch below
// 1 or a graph that has symbols.
absl::Status MakeBatchSymbolic(Graph& graph, std::int64_t traced);

}  // namespace gpueta
