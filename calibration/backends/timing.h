// When a latency is known well enough, and what its samples say.
//
// The method: warm up; take samples, each the mean of enough runs to be long
// against the clock; drop samples during which something else ran; stop when
// the median is known to a given relative error or the time is up. The policy
// is a pure function of the samples; only TimeRepeatedly looks at a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta {

// Microseconds on a steady clock.
using MicrosecondClock = std::function<double()>;
double SteadyMicroseconds();

// Time as a backend sees it: the clock, and how to let time pass without using it.
struct HostTime {
  MicrosecondClock now;
  std::function<void(double us)> pause;
};
HostTime RealTime();

struct TimingPolicy {
  // Caches, branch predictors, clocks and the threads themselves settle.
  double warm_up_us = 5'000;
  std::size_t warm_up_runs = 3;

  // A sample must be long against the resolution of the clock (about 30 ns),
  // and short against a scheduler's time slice (3 to 10 ms), so that on a busy
  // machine some samples fall between two preemptions.
  double sample_us = 20;

  // Repeating a measurement minutes later makes no finer error meaningful.
  double relative_error = 0.01;
  // Fewer give no usable spread.
  std::size_t min_samples = 12;
  std::size_t max_samples = 2'000;
  // Several ticks of the system's timer (1 to 10 ms), whatever they bring.
  double min_time_us = 20'000;
  // After this long the answer is what there is. On a busy machine, kernels of
  // several milliseconds need it.
  double time_budget_us = 1'000'000;
};

// What happened while a sample was taken, from best to worst.
enum class Condition : std::uint8_t {
  kUndisturbed,
  kSlowed,       // the device was in a slower state, e.g. throttled, that may last
  kInterrupted,  // something else ran
};

struct Sample {
  double latency_us = 0;  // of one run
  Condition condition = Condition::kUndisturbed;
  bool recorded = false;  // read from a record: taking it again gives the same
};

struct TimingResult {
  double latency_us = 0;      // median of the samples used
  double spread_us = 0;       // their standard deviation, from the median absolute deviation
  double relative_error = 0;  // standard error of the median over the median
  std::size_t samples = 0;    // used
  std::size_t discarded = 0;  // taken under worse conditions, or before the latency settled
  // Not known to the policy's error: too few good samples, too wide a spread,
  // or still drifting when the time was up. Better measured again.
  bool disturbed = false;
  // Known, but of the device's slower state, the only one seen. That may last
  // for seconds: better measured again after other kernels.
  bool slowed = false;
  // Known, but something else ran during every sample, and took as much of each: it
  // does not rest, and what it takes is part of the latency. So are a core that is
  // shared for good, and steady interrupts.
  bool shared = false;
};

// What samples say, in the order they were taken: the undisturbed ones if there
// are min_samples of them, else those and the slowed ones, else the best there
// are, and the result is disturbed. If all were interrupted, and their median is
// known, the device is shared; otherwise the latency is the shortest:
// interruptions only add. When the second half is slower or faster
// than the first by more than chance, only it counts: the latency had not
// settled. No samples: latency 0, disturbed.
TimingResult Summarize(std::span<const Sample> samples, const TimingPolicy& policy);

// How many samples to take before summarizing again: a tenth more.
std::size_t NextLook(std::size_t samples);

// Runs the work `runs` times back to back.
using TakeSample = std::function<absl::StatusOr<Sample>(std::size_t runs)>;

// Warms up, then samples until the result is neither disturbed nor shared,
// max_samples were taken, or the time budget is spent by `clock`; at least
// min_samples samples.
// One sample does if it is recorded. Returns the first error of take_sample.
absl::StatusOr<TimingResult> TimeRepeatedly(const TakeSample& take_sample, const TimingPolicy& policy,
                                            const MicrosecondClock& clock);

}  // namespace gpueta
