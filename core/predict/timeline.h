// When each kernel of a graph runs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/predict/estimate.h"

namespace gpueta {

// A kernel, or of a step of several microbatches or stages a whole pass.
struct TimelineEvent {
  int node = -1;         // of the graph; -1: a pass
  std::size_t part = 0;  // of GraphEstimate::parts, of a kernel
  int stage = 0;
  DeviceStream stream = DeviceStream::kCompute;
  Turn turn = Turn::kForward;
  std::int64_t microbatch = 0;
  double start_us = 0;  // on the device
  double duration_us = 0;
};

struct Timeline {
  // Of each stream and stage in order, none before the one in front of it ends.
  std::vector<TimelineEvent> events;
  // Until then the step is entered and its inputs are copied.
  double start_us = 0;
  // The host issues event i from start_us + i·issue_us on for as long, and the
  // device does not start it before that; 0: the host is never late, or what it
  // does is not shown.
  double issue_us = 0;
  double end_us = 0;
  int stages = 1;
};

// "stage 2, communication"; "stream" on one device.
std::string LaneName(const Timeline& timeline, const TimelineEvent& event);
// "forward of microbatch 3"
std::string NameOfPass(const TimelineEvent& pass);

// The kernels of a graph that run, in order, with their medians; of several
// microbatches or stages the passes. The time line ends at the graph's own
// median: where a host issues kernels, it takes just so long for each as makes
// that true, as the estimate knows its total alone. `kernels`: of every node.
// INVALID_ARGUMENT if the estimate is not of these kernels.
absl::StatusOr<Timeline> TimelineOf(const Graph& graph, const std::vector<Kernel>& kernels,
                                    const GraphEstimate& estimate);

}  // namespace gpueta
