// Kernels and whole models, measured.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/timing.h"
#include "core/measurements/measurements.h"

namespace gpueta {

struct MeasuredKernel {
  Measurement measurement;  // device, source, timing and latency filled in
  TimingResult timing;
};

// Measures one kernel by itself. Errors as Backend::Prepare, with the kernel
// named.
absl::StatusOr<MeasuredKernel> MeasureKernel(Backend& backend, const Kernel& kernel, const TimingPolicy& policy,
                                             const MicrosecondClock& clock);

struct GraphPolicy {
  std::size_t warm_up_runs = 2;
  // Uninterrupted ones, at least; a median of ten is known to a percent when
  // runs differ by 2 %.
  std::size_t runs = 10;
  double relative_error = 0.01;  // of the total
  // A model may take seconds, and a busy machine disturbs most runs.
  double time_budget_us = 30e6;
};

struct MeasuredGraph {
  std::vector<TimingResult> kernels;  // each within the back-to-back runs
  // All kernels back to back: the median of the uninterrupted runs. On a busy
  // machine a long run is always interrupted, a kernel in it seldom: where there
  // were fewer than `runs`, the sum of the kernels' medians (about 1 % less).
  TimingResult total;
  Timing timing = Timing::kEager;
};

// Runs the kernels back to back, in order, until the total is known to the
// policy's error, of a device that is not slowed, or the time is up by `clock`;
// at least `runs` runs.
// INVALID_ARGUMENT without kernels; otherwise errors as Backend::PrepareGraph.
absl::StatusOr<MeasuredGraph> MeasureGraph(Backend& backend, std::span<const Kernel> kernels, const GraphPolicy& policy,
                                           const MicrosecondClock& clock);

// The distinct kernels of a measured graph, in the order of their descriptions:
// latency and relative error are the means over the occurrences, and slowed, shared
// or disturbed is what one of them was. `kernels` is what MeasureGraph was given.
std::vector<MeasuredKernel> MeanOfOccurrences(const Backend& backend, std::span<const Kernel> kernels,
                                              const MeasuredGraph& graph);

}  // namespace gpueta
