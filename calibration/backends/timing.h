// When a latency is known well enough, and what its samples say.
//
// The method: warm up; take samples, each the mean of enough runs to be long
// against the clock; drop samples during which something else ran; stop when
// the median is known to a given relative error or the time is up. The policy
// is a pure function of the samples; only TimeRepeatedly looks at a clock.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta {

// Microseconds on a steady clock.
using MicrosecondClock = std::function<double()>;
double SteadyMicroseconds();

struct TimingPolicy {
  // Long enough for caches, branch predictors and clocks to settle.
  double warm_up_us = 5'000;
  std::size_t warm_up_runs = 3;

  // A sample must be long against the clock's resolution (~30 ns) and the cost
  // of starting a sample, and short against a scheduler's time slice (3 to 10
  // ms), so that on a busy machine some samples fall between two preemptions.
  double sample_us = 100;

  // As small as repeating a measurement minutes later makes meaningful.
  double relative_error = 0.01;
  // Fewer give no usable spread.
  std::size_t min_samples = 12;
  std::size_t max_samples = 2'000;
  // After this long the answer is what there is.
  double time_budget_us = 400'000;
};

struct Sample {
  double latency_us = 0;   // of one run
  bool disturbed = false;  // the device or the host did something else meanwhile
};

struct TimingResult {
  double latency_us = 0;      // median of the samples used
  double spread_us = 0;       // their standard deviation, from the median absolute deviation
  double relative_error = 0;  // standard error of the median over the median
  std::size_t samples = 0;    // used
  std::size_t discarded = 0;  // disturbed, or taken before the latency settled
  // The latency is not known to the policy's error: too few clean samples, too
  // much spread, or still drifting when the time was up.
  bool disturbed = false;
};

// What the samples say, in the order taken. With fewer than min_samples clean
// ones the disturbed ones are used as well and the result is disturbed. No
// samples give latency 0, disturbed.
TimingResult Summarize(std::span<const Sample> samples, const TimingPolicy& policy);

// Whether further samples would be a waste: the result is not disturbed, or
// max_samples were taken.
bool IsEnough(std::span<const Sample> samples, const TimingPolicy& policy);

// Runs the work `runs` times back to back.
using TakeSample = std::function<absl::StatusOr<Sample>(std::size_t runs)>;

// Warms up, samples until IsEnough or the time budget is spent (by `clock`),
// and summarizes. Takes min_samples samples whatever the budget. Returns the
// first error of take_sample.
absl::StatusOr<TimingResult> TimeRepeatedly(const TakeSample& take_sample, const TimingPolicy& policy,
                                            const MicrosecondClock& clock);

}  // namespace gpueta
