#include "calibration/backends/measure.h"

#include <algorithm>

#include "core/base/errors.h"

namespace gpueta {
namespace {

Sample Total(const GraphSample& run) {
  Sample total{.condition = run.condition};
  for (const Sample& kernel : run.kernels) total.latency_us += kernel.latency_us;
  return total;
}

double SumOfMedians(std::span<const TimingResult> kernels) {
  double sum = 0;
  for (const TimingResult& kernel : kernels) sum += kernel.latency_us;
  return sum;
}

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
  return result;
}

absl::StatusOr<MeasuredGraph> MeasureGraph(Backend& backend, std::span<const Kernel> kernels, const GraphPolicy& policy,
                                           const MicrosecondClock& clock) {
  if (kernels.empty()) return InvalidArgument("no kernels to measure");
  GPUETA_ASSIGN_OR_RETURN(const auto prepared, backend.PrepareGraph(kernels));
  for (std::size_t run = 0; run < policy.warm_up_runs; ++run) GPUETA_RETURN_IF_ERROR(prepared->Run().status());

  const double start_us = clock();
  const TimingPolicy precision{.relative_error = policy.relative_error, .min_samples = policy.runs};
  std::vector<std::vector<Sample>> by_kernel(kernels.size());
  std::vector<Sample> totals;
  for (std::size_t next_look = policy.runs;;) {
    GPUETA_ASSIGN_OR_RETURN(const GraphSample run, prepared->Run());
    for (std::size_t i = 0; i < kernels.size(); ++i) by_kernel[i].push_back(run.kernels[i]);
    totals.push_back(Total(run));
    if (totals.size() < next_look) continue;
    if (clock() - start_us > policy.time_budget_us) break;
    if (const TimingResult so_far = Summarize(totals, precision); !so_far.disturbed && !so_far.slowed) break;
    next_look = NextLook(totals.size());
  }

  MeasuredGraph result{.total = Summarize(totals, precision), .timing = prepared->timing()};
  for (const auto& samples : by_kernel) result.kernels.push_back(Summarize(samples, precision));
  const auto interrupted = std::ranges::count(totals, Condition::kInterrupted, &Sample::condition);
  if (totals.size() - static_cast<std::size_t>(interrupted) < policy.runs) {
    result.total.latency_us = SumOfMedians(result.kernels);
  }
  return result;
}

}  // namespace gpueta
