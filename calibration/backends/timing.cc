#include "calibration/backends/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// From the median absolute deviation to the standard deviation, for normal
// noise.
constexpr double kDeviationsPerMad = 1.4826;

// Two halves differ by more than chance when their medians are this many
// standard errors apart, and it matters when they are this share apart.
constexpr double kDriftErrors = 4;
constexpr double kDriftShare = 0.02;

struct Centre {
  double median = 0;
  double deviation = 0;
  double standard_error = 0;  // of the median
};

double MedianOfSorted(std::span<const double> sorted) {
  const std::size_t n = sorted.size();
  return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

// The standard error is half the distance between the order statistics
// sqrt(n)/2 ranks below and above the median: about one standard deviation of
// the number of samples below the true median, for any distribution. Computed
// from the deviation, it would be far too small where the samples are of two
// kinds.
Centre CentreOf(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  Centre centre{.median = MedianOfSorted(sorted)};
  const auto n = static_cast<double>(sorted.size());
  const auto below = static_cast<std::size_t>((n - std::sqrt(n)) / 2);
  const auto above = std::min(sorted.size() - 1, static_cast<std::size_t>(std::ceil((n + std::sqrt(n)) / 2)));
  centre.standard_error = (sorted[above] - sorted[below]) / 2;
  for (double& value : sorted) value = std::abs(value - centre.median);
  std::ranges::sort(sorted);
  centre.deviation = kDeviationsPerMad * MedianOfSorted(sorted);
  return centre;
}

bool Drifts(std::span<const double> values) {
  if (values.size() < 2) return false;
  const Centre first = CentreOf(values.first(values.size() / 2));
  const Centre second = CentreOf(values.subspan(values.size() / 2));
  const double apart = std::abs(second.median - first.median);
  return apart > kDriftShare * second.median &&
         apart > kDriftErrors * std::hypot(first.standard_error, second.standard_error);
}

std::vector<double> LatenciesUpTo(Condition worst, std::span<const Sample> samples) {
  std::vector<double> latencies;
  latencies.reserve(samples.size());
  for (const Sample& sample : samples) {
    if (sample.condition <= worst) latencies.push_back(sample.latency_us);
  }
  return latencies;
}

// So many samples of a better condition say more than all of a worse one.
constexpr std::size_t kLeastSamples = 3;

// The shortest sample of one run, when everything has settled.
absl::StatusOr<Sample> WarmUp(const TakeSample& take_sample, const TimingPolicy& policy,
                              const MicrosecondClock& clock) {
  const double start_us = clock();
  Sample shortest{.latency_us = std::numeric_limits<double>::max()};
  for (std::size_t runs = 0; runs < policy.warm_up_runs || clock() - start_us < policy.warm_up_us; ++runs) {
    GPUETA_ASSIGN_OR_RETURN(const Sample sample, take_sample(1));
    if (sample.latency_us < shortest.latency_us) shortest = sample;
    if (sample.recorded) break;
  }
  return shortest;
}

}  // namespace

double SteadyMicroseconds() {
  using Microseconds = std::chrono::duration<double, std::micro>;
  return Microseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

HostTime RealTime() {
  return {.now = SteadyMicroseconds,
          .pause = [](double us) { std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us)); }};
}

TimingResult Summarize(std::span<const Sample> samples, const TimingPolicy& policy) {
  TimingResult result;
  bool too_few = false;
  std::vector<double> latencies = LatenciesUpTo(Condition::kUndisturbed, samples);
  if (latencies.size() < policy.min_samples) {
    std::vector<double> with_slowed = LatenciesUpTo(Condition::kSlowed, samples);
    result.slowed = with_slowed.size() >= policy.min_samples;
    too_few = !result.slowed;
    if (result.slowed || latencies.size() < kLeastSamples) latencies = std::move(with_slowed);
  }
  const bool all_interrupted = latencies.size() < kLeastSamples;
  if (all_interrupted) latencies = LatenciesUpTo(Condition::kInterrupted, samples);
  if (latencies.empty()) return {.disturbed = true};
  std::span<const double> used = latencies;
  bool settled = true;
  if (const std::span<const double> second_half = used.subspan(used.size() / 2); Drifts(used)) {
    used = second_half;
    settled = second_half.size() >= policy.min_samples && !Drifts(second_half);
  }
  const Centre centre = CentreOf(used);
  result.latency_us = centre.median;
  result.spread_us = centre.deviation;
  result.relative_error = centre.standard_error / centre.median;
  result.samples = used.size();
  result.discarded = samples.size() - used.size();
  const bool known = settled && result.relative_error <= policy.relative_error;
  result.shared = all_interrupted && known && used.size() >= policy.min_samples;
  if (all_interrupted && !result.shared) result.latency_us = std::ranges::min(used);
  result.disturbed = !result.shared && (too_few || !known);
  return result;
}

std::size_t NextLook(std::size_t samples) { return samples + samples / 10 + 1; }

absl::StatusOr<TimingResult> TimeRepeatedly(const TakeSample& take_sample, const TimingPolicy& policy,
                                            const MicrosecondClock& clock) {
  GPUETA_ASSIGN_OR_RETURN(const Sample one_run, WarmUp(take_sample, policy, clock));
  if (one_run.recorded) return TimingResult{.latency_us = one_run.latency_us, .samples = 1};
  const auto runs = static_cast<std::size_t>(std::max(1.0, std::ceil(policy.sample_us / one_run.latency_us)));
  const double start_us = clock();
  std::vector<Sample> samples;
  for (std::size_t next_look = policy.min_samples; samples.size() < policy.max_samples;) {
    GPUETA_ASSIGN_OR_RETURN(const Sample sample, take_sample(runs));
    samples.push_back(sample);
    if (samples.size() < next_look) continue;
    const double elapsed_us = clock() - start_us;
    if (elapsed_us > policy.time_budget_us) break;
    if (elapsed_us > policy.min_time_us) {
      const TimingResult so_far = Summarize(samples, policy);
      if (!so_far.disturbed && !so_far.shared) break;
    }
    next_look = NextLook(samples.size());
  }
  return Summarize(samples, policy);
}

}  // namespace gpueta
