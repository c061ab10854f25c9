// A training step on several devices that each see a part of the batch.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace gpueta {

struct DataParallelism {
  std::int64_t ranks = 1;
  // What ranks share instead of each keeping all of it (ZeRO, Rajbhandari et al.
  // 2020): 0 nothing; 1 optimiser state; 2 gradients, too; 3 parameters, too.
  int zero_stage = 0;
  // Gradients are exchanged when so many are complete: 25 MiB, as PyTorch's DDP.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  std::int64_t stride = 1;  // devices from one rank to the next: those of tensor and expert parallelism

  friend bool operator==(const DataParallelism&, const DataParallelism&) = default;
};

// Divides `batch` in all dims and inputs by `shares`, rounding up: the fullest
// device decides. INVALID_ARGUMENT for a graph without that symbol.
absl::Status DivideBatch(Graph& graph, std::int64_t shares);

// A training step (AddBackward, AddOptimiserStep) with the collectives of its
// stages' data-parallel ranks on the communication stream, each behind the
// kernels it needs:
// - stage 0 to 2: gradients by buckets in the order they are complete, all_reduce,
//   or reduce_scatter where ranks share; once a step, with the last microbatch's
//   backward pass, in stage 2 with every one's. Behind the optimiser, which
//   updates a rank's share, an all_gather of the parameters.
// - stage 3: an all_gather of each layer's parameters in front of its forward and
//   its backward pass, at most one layer ahead of computing, and a reduce_scatter
//   behind the latter (FSDP's full sharding).
// Memory is that of a rank. Bytes of gradients are those of graph.parameters: what
// nodes have in common is exchanged once.
// INVALID_ARGUMENT for ranks or a stage out of range, or a graph without backward
// pass.
absl::Status ShareOverRanks(Graph& graph, const DataParallelism& data);

}  // namespace gpueta
