#include "calibration/backends/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// MAD to standard deviation, and the standard error of a median relative to
// that of a mean, both for normal noise (sqrt(pi/2)).
constexpr double kDeviationsPerMad = 1.4826;
constexpr double kMedianInefficiency = 1.2533;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

double SteadyMicroseconds() {
  using Microseconds = std::chrono::duration<double, std::micro>;
  return Microseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TimingResult Summarize(std::span<const Sample> samples, const TimingPolicy& policy) {
  std::vector<double> v;
  for (auto& s : samples)
    if (!s.disturbed) v.push_back(s.latency_us);
  TimingResult r;
  r.samples = v.size();
  r.discarded = samples.size() - v.size();
  if (v.size() < policy.min_samples) {
    v.clear();
    for (auto& s : samples) v.push_back(s.latency_us);
    r.disturbed = true;
    if (v.empty()) return r;
  }
  r.latency_us = Median(v);
  std::vector<double> d;
  for (double x : v) d.push_back(std::abs(x - r.latency_us));
  r.spread_us = kDeviationsPerMad * Median(d);
  r.relative_error = kMedianInefficiency * r.spread_us / std::sqrt(double(v.size())) / r.latency_us;
  if (r.relative_error > policy.relative_error) r.disturbed = true;
  return r;
}

bool IsEnough(std::span<const Sample> samples, const TimingPolicy& policy) {
  return samples.size() >= policy.max_samples ||
         (samples.size() >= policy.min_samples && !Summarize(samples, policy).disturbed);
}

absl::StatusOr<TimingResult> TimeRepeatedly(const TakeSample& take_sample, const TimingPolicy& policy,
                                            const MicrosecondClock& clock) {
  const double start = clock();
  double shortest = 1e300;
  for (std::size_t runs = 0; runs < policy.warm_up_runs || clock() - start < policy.warm_up_us; ++runs) {
    GPUETA_ASSIGN_OR_RETURN(const Sample sample, take_sample(1));
    shortest = std::min(shortest, sample.latency_us);
  }
  std::size_t runs = std::max(1.0, std::ceil(policy.sample_us / shortest));
  std::vector<Sample> samples;
  while (!IsEnough(samples, policy) && (samples.size() < policy.min_samples || clock() - start < policy.time_budget_us)) {
    GPUETA_ASSIGN_OR_RETURN(const Sample sample, take_sample(runs));
    samples.push_back(sample);
  }
  return Summarize(samples, policy);
}

}  // namespace gpueta
