// A model on several devices: what one of them runs, and what passes between
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace gpueta {

// What the collectives of passes are measured as.
inline constexpr std::string_view kCollectiveBackend = "nccl-tests";

struct Parallelism {
  std::int64_t tensor = 1;
  std::int64_t expert = 1;
  std::int64_t pipeline = 1;

  // Of one stage of one replica.
  std::int64_t DevicesOfStage() const { return std::max(tensor, expert); }

  friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

// One rank's share of a graph whose nodes say how they split (GraphNode::split):
// projections by columns and heads, output projections by rows and an
// all_reduce behind each, experts by width or among ranks, logits by
// vocabulary and an all_gather. Experts on more ranks than share a layer's
// tensors exchange tokens by alltoall before and after.
// With `sequence` what every rank would do of a layer alike (norms, residual sums)
// is divided by rows: each all_reduce becomes a reduce_scatter and, in front of
// what needs all rows, an all_gather (Korthikanti et al. 2022).
// INVALID_ARGUMENT where ranks do not divide heads or experts, or for a graph
// that does not say how it splits.
absl::Status SplitTensors(Graph& graph, const Parallelism& ranks, bool sequence = false);

// `stages` devices, each with its share of the layers (GraphNode::stage), or of
// the work where no node says what its layer is (BalancedCuts), and a send_recv of
// what passes to the next. Parameters and their bytes become a stage's share, the
// mean. `stride`: devices from one stage to the next. INVALID_ARGUMENT for more
// stages than layers or kernels.
absl::Status SplitStages(Graph& graph, std::int64_t stages, std::int64_t stride = 1);

}  // namespace gpueta
