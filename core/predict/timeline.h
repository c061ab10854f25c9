// When each kernel of a graph runs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/kernel.h"
#include "core/predict/estimate.h"

namespace gpueta {

struct TimelineEvent {
  std::size_t part = 0;  // of GraphEstimate::parts
  double start_us = 0;   // on the device
  double duration_us = 0;
};

struct Timeline {
  std::vector<TimelineEvent> events;  // in order, none before the one in front of it ends
  // Until then the step is entered and its inputs are copied.
  double start_us = 0;
  // The host issues event i from start_us + i·issue_us on for as long, and the
  // device does not start it before that; 0: the host is never late.
  double issue_us = 0;
  double end_us = 0;
};

// The kernels of a graph that run, in order, with their medians. The time line
// ends at the graph's own median: where a host issues kernels, it takes just so
// long for each as makes that true, as the estimate knows its total alone.
// INVALID_ARGUMENT if the estimate is not of these kernels.
absl::StatusOr<Timeline> TimelineOf(std::span<const Kernel> kernels, const GraphEstimate& estimate);

}  // namespace gpueta
