// A model on several devices: what one of them runs, and what passes between
// them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace gpueta {

struct Parallelism {
  std::int64_t tensor = 1;
  std::int64_t expert = 1;
  std::int64_t pipeline = 1;

  friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

// One rank's share of a graph whose nodes say how they split (GraphNode::split):
// projections by columns and heads, output projections by rows and an
// all_reduce behind each, experts by width or among ranks, logits by
// vocabulary and an all_gather. Experts on more ranks than share a layer's
// tensors exchange tokens by alltoall before and after.
// INVALID_ARGUMENT where ranks do not divide heads or experts, or for a graph
// that does not say how it splits.
absl::Status SplitTensors(Graph& graph, const Parallelism& ranks);

// One batch through `stages` devices, each with its share of the layers: the
// kernels of all stages one after the other and a send_recv between two. The
// memory is that of a stage. INVALID_ARGUMENT for more stages than layers.
absl::Status SplitStages(Graph& graph, std::int64_t stages);

}  // namespace gpueta
