#include "calibration/backends/measure.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

Sample Total(const GraphSample& run) {
  Sample total{.condition = run.condition};
  for (const Sample& kernel : run.kernels) total.latency_us += kernel.latency_us;
  return total;
}

std::size_t CountUninterrupted(std::span<const Sample> samples) {
  const auto interrupted = std::ranges::count(samples, Condition::kInterrupted, &Sample::condition);
  return samples.size() - static_cast<std::size_t>(interrupted);
}

// The total as the sum of the kernels, with independent errors.
TimingResult SumOf(std::span<const TimingResult> kernels, std::size_t runs) {
  TimingResult sum{.samples = runs};
  double variance = 0;
  double squared_error = 0;
  for (const TimingResult& kernel : kernels) {
    sum.latency_us += kernel.latency_us;
    variance += kernel.spread_us * kernel.spread_us;
    squared_error += std::pow(kernel.relative_error * kernel.latency_us, 2);
    sum.samples = std::min(sum.samples, kernel.samples);
    sum.slowed = sum.slowed || kernel.slowed;
  }
  sum.spread_us = std::sqrt(variance);
  sum.relative_error = std::sqrt(squared_error) / sum.latency_us;
  sum.discarded = runs - sum.samples;
  return sum;
}

// Samples of the runs so far, kernel by kernel and in total.
class GraphRuns {
 public:
  GraphRuns(std::size_t kernels, const GraphPolicy& policy)
      : precision_{.relative_error = policy.relative_error, .min_samples = policy.runs}, by_kernel_(kernels) {}

  void Add(const GraphSample& run) {
    for (std::size_t i = 0; i < by_kernel_.size(); ++i) by_kernel_[i].push_back(run.kernels[i]);
    totals_.push_back(Total(run));
  }
  std::size_t size() const { return totals_.size(); }

  MeasuredGraph Summary(Timing timing) const {
    MeasuredGraph result{.timing = timing};
    for (const auto& samples : by_kernel_) result.kernels.push_back(Summarize(samples, precision_));
    if (CountUninterrupted(totals_) >= precision_.min_samples) {
      result.total = Summarize(totals_, precision_);
      return result;
    }
    const bool known = std::ranges::all_of(
        by_kernel_, [this](const auto& samples) { return CountUninterrupted(samples) >= precision_.min_samples; });
    result.total = SumOf(result.kernels, size());
    result.total.disturbed = !known || result.total.relative_error > precision_.relative_error;
    return result;
  }

 private:
  TimingPolicy precision_;
  std::vector<std::vector<Sample>> by_kernel_;
  std::vector<Sample> totals_;
};

}  // namespace

absl::StatusOr<MeasuredKernel> MeasureKernel(Backend& backend, const Kernel& kernel, const TimingPolicy& policy,
                                             const MicrosecondClock& clock) {
  auto prepared = backend.Prepare(kernel);
  if (!prepared.ok()) return Prefixed(prepared.status(), Describe(kernel));
  const auto take_sample = [&prepared](std::size_t runs) { return (*prepared)->TakeSample(runs); };
  MeasuredKernel result;
  GPUETA_ASSIGN_OR_RETURN(result.timing, TimeRepeatedly(take_sample, policy, clock));
  result.measurement = {.device = backend.slug(),
                        .source = (*prepared)->source(),
                        .timing = (*prepared)->timing(),
                        .kernel = kernel,
                        .latency_us = result.timing.latency_us};
  if (const Launch launch = (*prepared)->launch(); !launch.kernel.empty()) result.measurement.kernel.launch = launch;
  return result;
}

absl::StatusOr<MeasuredGraph> MeasureGraph(Backend& backend, std::span<const Kernel> kernels, const GraphPolicy& policy,
                                           const MicrosecondClock& clock) {
  if (kernels.empty()) return InvalidArgument("no kernels to measure");
  GPUETA_ASSIGN_OR_RETURN(const auto prepared, backend.PrepareGraph(kernels));
  for (std::size_t run = 0; run < policy.warm_up_runs; ++run) GPUETA_RETURN_IF_ERROR(prepared->Run().status());

  const double start_us = clock();
  GraphRuns runs(kernels.size(), policy);
  for (std::size_t next_look = policy.runs;;) {
    GPUETA_ASSIGN_OR_RETURN(const GraphSample run, prepared->Run());
    runs.Add(run);
    if (runs.size() < next_look) continue;
    MeasuredGraph so_far = runs.Summary(prepared->timing());
    const bool known = !so_far.total.disturbed && !so_far.total.slowed;
    if (known || clock() - start_us > policy.time_budget_us) return so_far;
    next_look = NextLook(runs.size());
  }
}

std::vector<MeasuredKernel> MeanOfOccurrences(const Backend& backend, std::span<const Kernel> kernels,
                                              const MeasuredGraph& graph) {
  std::map<std::string, std::vector<std::size_t>> occurrences;
  for (std::size_t i = 0; i < kernels.size(); ++i) occurrences[Describe(kernels[i])].push_back(i);
  std::vector<MeasuredKernel> results;
  for (const auto& [description, indices] : occurrences) {
    MeasuredKernel result;
    result.measurement = {.device = backend.slug(),
                          .source = "model",
                          .timing = graph.timing,
                          .kernel = kernels[indices.front()],
                          .latency_us = 0};
    const double share = 1 / static_cast<double>(indices.size());
    for (std::size_t i : indices) {
      const TimingResult& timing = graph.kernels[i];
      result.measurement.latency_us += share * timing.latency_us;
      result.timing.relative_error += share * timing.relative_error;
      result.timing.slowed = result.timing.slowed || timing.slowed;
      result.timing.shared = result.timing.shared || timing.shared;
      result.timing.disturbed = result.timing.disturbed || timing.disturbed;
    }
    result.timing.latency_us = result.measurement.latency_us;
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace gpueta
