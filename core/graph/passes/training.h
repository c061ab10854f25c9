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
void AddBackward(Graph& graph);

// Appends what clears the buffers of gradients and adds the new ones into them,
// two kernels a parameter tensor: frameworks that keep their buffers over steps.
void AccumulateGradients(Graph& graph);

enum class Optimiser : std::uint8_t { kNone, kSgd, kAdam, kAdamW };
std::optional<Optimiser> ParseOptimiser(std::string_view name);

// Appends the update of all parameters, one fused pass over parameters,
// gradients and the optimiser's state, which takes memory, too.
void AddOptimiserStep(Graph& graph, Optimiser optimiser);

}  // namespace gpueta
