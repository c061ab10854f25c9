// Where the time of a graph goes, for people: by kind of kernel and by layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/predict/estimate.h"

namespace gpueta {

// Kernels that are one line of a table.
struct TimeShare {
  std::string name;
  double us = 0;                  // of the graph's median, as GraphPart::ExposedUs
  std::int64_t count = 0;         // kernels
  std::int64_t hidden = 0;        // of these, beside others
  Bound bound = Bound::kCompute;  // of most of `us`
};

// What people call a kernel's kind: "gemm", "attention decode", "vector
// layernorm", "collective all_reduce", "custom NAME".
std::string KindOf(const Kernel& kernel);

// By KindOf, in the order of first occurrence. The sum of `us` is
// GraphTime::kernels_us.
std::vector<TimeShare> SharesByKind(const GraphEstimate& estimate);

// The layer that a node belongs to, by its name and GraphNode::layer: of a stack
// of layers "layers.3", of a path of modules "/features/conv0", else the source's
// own node, without what passes added to its name.
std::string LayerOf(const GraphNode& node);

// By LayerOf, in the order in which layers run; the same sum. `kernels`: of every
// node. INVALID_ARGUMENT if the estimate is not of these kernels.
absl::StatusOr<std::vector<TimeShare>> SharesByLayer(const Graph& graph, const std::vector<Kernel>& kernels,
                                                     const GraphEstimate& estimate);

}  // namespace gpueta
