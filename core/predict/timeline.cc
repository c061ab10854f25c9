#include "core/predict/timeline.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/predict/compose.h"

namespace gpueta {
namespace {

// Starts each kernel when the one before it ended and the host issued it, after
// a gap. Returns the end of the last one.
double Play(double start_us, double issue_us, double gap_us, std::vector<TimelineEvent>& events) {
  double end = start_us;
  double issued = start_us;
  for (TimelineEvent& event : events) {
    issued += issue_us;
    event.start_us = std::max(end + gap_us, issued);
    end = event.start_us + event.duration_us;
  }
  return end;
}

}  // namespace

absl::StatusOr<Timeline> TimelineOf(std::span<const Kernel> kernels, const GraphEstimate& estimate) {
  PartsByWork parts(estimate.parts);
  for (std::size_t i = 0; i < estimate.parts.size(); ++i) parts.Add(i);
  Timeline out;
  for (const Kernel& kernel : kernels) {
    const auto part = parts.Find(kernel);
    if (!part.has_value()) return InvalidArgument("the estimate has no kernel {}", Describe(kernel));
    out.events.push_back({*part, 0, estimate.parts[*part].estimate.latency_us.p50});
  }
  if (out.events.empty()) return out;
  const auto count = static_cast<double>(out.events.size());
  const double gap_us = estimate.time.gaps_us / count;
  const double start_us = estimate.time.start_us;
  const double total_us = estimate.latency_us.p50 / estimate.correction;
  if (estimate.time.host_us > 0) {
    // The end grows with the issue time, from below the total to above it.
    double low = 0;
    double high = (total_us - start_us) / count;
    constexpr int kHalvings = 60;
    for (int i = 0; i < kHalvings; ++i) {
      out.issue_us = (low + high) / 2;
      (Play(start_us, out.issue_us, gap_us, out.events) < total_us ? low : high) = out.issue_us;
    }
  }
  const double end = Play(start_us, out.issue_us, gap_us, out.events);
  const double scale = end > 0 ? estimate.latency_us.p50 / end : 1;
  for (TimelineEvent& event : out.events) {
    event.start_us *= scale;
    event.duration_us *= scale;
  }
  out.start_us = start_us * scale;
  out.issue_us *= scale;
  out.end_us = end * scale;
  return out;
}

}  // namespace gpueta
