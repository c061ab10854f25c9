// From a forward pass to a training step.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace gpueta {

// Appends the backward pass, in reverse order: the gradients of a product's
// input and weight (and bias) are two products (and a reduction); those of both
// factors of a batched product two more; attention recomputes its scores, five
// products for two; convolutions two of their size; norms, activations and
// other vector operators passes over the tensors they need; the gradients of an
// output that several kernels read are added up. What forward kernels
// read stays alive until their gradient; parameters have gradients of their size.
// Backward kernels run in their forward kernel's stage, each microbatch.
void AddBackward(Graph& graph);

// Which gradient a node of a backward pass computes that has the shape of its forward
// kernel.
enum class Gradient : std::uint8_t {
  kNone,     // no gradient, or one that is a kernel of its own kind (a product, a pass over a tensor)
  kInput,    // of what the forward kernel reads
  kWeights,  // of its parameters
  kAll,      // of everything it reads, where one kernel computes them together
  kPart,     // a share of what the node of kAll in front stands for
};
// By the names that AddBackward gives.
Gradient GradientOf(const Graph& graph, std::size_t node);

// Of a step with a backward pass: of each layer (GraphNode::layer) only the input
// is kept, and its forward kernels run again in front of its gradients, as
// activation checkpointing does. INVALID_ARGUMENT for a graph that does not say
// what its layers are: MarkLayers (layers.h) numbers them before its backward pass.
absl::Status RecomputeLayers(Graph& graph);

// Adds what clears the buffers of gradients, once a step, and what adds new ones
// into them as they are complete, each a kernel a parameter tensor: frameworks
// that keep their buffers over steps. Behind the optimiser, if there is one.
void AccumulateGradients(Graph& graph);

enum class Optimiser : std::uint8_t { kNone, kSgd, kAdam, kAdamW };
std::optional<Optimiser> ParseOptimiser(std::string_view name);

// The source operator of what AddOptimiserStep appends.
inline constexpr std::string_view kOptimiserOp = "Optimiser";

// Appends the update of all parameters, one fused pass of each stage over
// parameters, gradients and the optimiser's state. That takes memory, too: for
// each parameter two moments in fp32 (Adam) and, of 16-bit parameters, a copy in
// fp32, as mixed precision keeps (Rajbhandari et al. 2020, section 3.1).
void AddOptimiserStep(Graph& graph, Optimiser optimiser);

}  // namespace gpueta
