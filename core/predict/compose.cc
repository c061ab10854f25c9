#include "core/predict/compose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/base/errors.h"
#include "core/profile/model_residual.h"

namespace gpueta {
namespace {

// One-sided normal quantiles; errors of the whole-model form have heavier tails
// at p99.
constexpr double kLearntZ90 = 1.2816;
constexpr double kLearntZ99 = 2.8;

bool SameWork(const Kernel& a, const Kernel& b) {
  return a.dtype == b.dtype && a.work == b.work && a.launch == b.launch;
}

std::uint64_t HashOfWork(const Kernel& kernel) {
  return (static_cast<std::uint64_t>(HashOf(kernel)) << 16) ^ (static_cast<std::uint64_t>(kernel.op()) << 8) ^
         static_cast<std::uint64_t>(kernel.dtype);
}

// Sums over the parts of a step, and the step they make.
struct Step {
  double kernels_us = 0;
  double gaps_us = 0;
  double host_us = 0;
  double start_us = 0;  // entering the step and copying its inputs
  double copy_us = 0;   // of these

  // With the kernels' sum times a factor.
  double TotalUs(double of_kernels = 1) const {
    const double device_us = gaps_us + kernels_us * of_kernels;
    return (host_us > 0 ? OverlapUs(device_us, host_us) : device_us) + start_us;
  }
};

// Share of the kernels' time that the whole-model form answers for.
double LearntShare(const std::vector<GraphPart>& parts) {
  double learnt_us = 0, all_us = 0;
  for (const GraphPart& part : parts) {
    const double us = static_cast<double>(part.count) * part.estimate.latency_us.p50;
    all_us += us;
    if (part.estimate.estimator == kWholeModelEstimator) learnt_us += us;
  }
  return all_us > 0 ? learnt_us / all_us : 0;
}

ModelDeviation DeviationOf(const std::vector<GraphPart>& parts, const WholeModel& learnt) {
  std::vector<CountedKernel> kernels;
  kernels.reserve(parts.size());
  for (const GraphPart& part : parts) kernels.push_back({RunKernelOf(part.kernel), static_cast<double>(part.count)});
  return DeviationOf(learnt, FeaturesOf(kernels));
}

// Variance of ln(total) by what is not known of a learnt machine; `of_model` is
// what is not known of the model.
double LearntVariance(const std::vector<GraphPart>& parts, const LearntMachine& machine, double of_model,
                      const Step& step) {
  double compute_us = 0, memory_us = 0;
  for (const GraphPart& part : parts) {
    if (part.estimate.estimator != kWholeModelEstimator) continue;
    const RunTime time = machine.Time(RunKernelOf(part.kernel));
    const double us = static_cast<double>(part.count) * part.estimate.latency_us.p50;
    compute_us += us * time.compute_share;
    memory_us += us * time.memory_share;
  }
  constexpr double kSmall = 1e-3;  // of the numerical derivatives
  const double total = step.TotalUs();
  Step slower_host = step;
  slower_host.host_us *= 1 + kSmall;
  const double of_kernels = (step.TotalUs(1 + kSmall) / total - 1) / kSmall;
  const double per_us = step.kernels_us > 0 ? of_kernels / step.kernels_us : 0;
  const WholeModel::Departure gradient = {compute_us * per_us, memory_us * per_us,
                                          (slower_host.TotalUs() / total - 1) / kSmall, step.copy_us / total};
  const WholeModel& learnt = machine.learnt();
  double variance = of_model;
  for (std::size_t v = 0; v < gradient.size(); ++v) {
    for (std::size_t w = 0; w < gradient.size(); ++w) variance += gradient[v] * learnt.covariance[v][w] * gradient[w];
  }
  return std::max(variance, 0.0);
}

}  // namespace

KernelFamily FamilyOf(const Kernel& kernel) {
  const auto* attention = std::get_if<Attention>(&kernel.work);
  return {kernel.op(), attention == nullptr ? Attention::Phase::kPrefill : attention->phase};
}

void ErrorSum::Add(const Kernel& kernel, double spread) {
  own_ += spread * spread;
  shared_[FamilyOf(kernel)] += spread;
}

double ErrorSum::Combined() const {
  double shared = 0;
  for (const auto& [family, sum] : shared_) shared += sum * sum;
  return std::sqrt(kOwnErrorShare * own_ + (1 - kOwnErrorShare) * shared);
}

void PartsByWork::Add(std::size_t part) { by_hash_.emplace(HashOfWork(parts_[part].kernel), part); }

std::optional<std::size_t> PartsByWork::Find(const Kernel& kernel) const {
  const auto [begin, end] = by_hash_.equal_range(HashOfWork(kernel));
  const auto match =
      std::find_if(begin, end, [&](const auto& at) { return SameWork(parts_[at.second].kernel, kernel); });
  return match == end ? std::nullopt : std::optional(match->second);
}

GraphEstimate ComposeParts(std::vector<GraphPart> parts, const ExecutionModel& execution) {
  GraphEstimate out;
  out.parts = std::move(parts);
  Step step;
  // What the model deviates is of all that the form answers for, host included.
  ModelDeviation deviation;
  double of_host = 1;
  if (execution.learnt != nullptr) {
    deviation = DeviationOf(out.parts, execution.learnt->learnt());
    const double share = LearntShare(out.parts);
    for (GraphPart& part : out.parts) {
      if (part.estimate.estimator != kWholeModelEstimator) continue;
      for (double Quantiles::*q : {&Quantiles::p50, &Quantiles::p90, &Quantiles::p99})
        part.estimate.latency_us.*q *= std::exp(deviation.ln);
    }
    of_host = std::exp(share * deviation.ln);
    deviation.variance *= share * share;
  }
  const bool training = std::any_of(out.parts.begin(), out.parts.end(),
                                    [](const GraphPart& part) { return IsOfTraining(RunKernelOf(part.kernel)); });
  for (const GraphPart& part : out.parts) {
    const auto count = static_cast<double>(part.count);
    step.kernels_us += count * part.estimate.latency_us.p50;
    step.gaps_us += count * execution.gap_us;
    step.host_us += count * (execution.learnt != nullptr ? execution.learnt->IssueUs(RunKernelOf(part.kernel), training)
                                                         : execution.host_issue_us);
  }
  if (execution.learnt != nullptr) {
    step.host_us *= of_host;
    step.copy_us = of_host * execution.learnt->CopyUs(execution.input_bytes);
    step.start_us = of_host * execution.learnt->StepFixedUs() + step.copy_us;
  }
  out.time = {step.kernels_us, step.gaps_us, step.host_us, step.start_us};
  ErrorSum p90, p99;
  std::map<std::string_view, double> estimators;
  for (const GraphPart& part : out.parts) {
    const Quantiles& q = part.estimate.latency_us;
    const double us = static_cast<double>(part.count) * q.p50;
    if (us <= 0) continue;
    const double weight = us / step.kernels_us;
    if (part.estimate.estimator != kWholeModelEstimator) {
      p90.Add(part.kernel, weight * std::log(q.p90 / q.p50));
      p99.Add(part.kernel, weight * std::log(q.p99 / q.p50));
    }
    out.provenance[part.estimate.provenance] += us;
    estimators[part.estimate.estimator] += us;
  }
  for (auto& [kind, us] : out.provenance) us /= step.kernels_us;
  // Gaps and host are no part of the kernels' errors.
  const double p50_us = step.TotalUs();
  const double variance =
      execution.learnt != nullptr ? LearntVariance(out.parts, *execution.learnt, deviation.variance, step) : 0;
  const auto quantile = [&](const ErrorSum& of_tables, double z) {
    const double ratio = step.TotalUs(std::exp(of_tables.Combined())) / p50_us;
    return variance > 0 ? p50_us * std::exp(std::sqrt(std::pow(std::log(ratio), 2) + z * z * variance))
                        : p50_us * ratio;
  };
  out.latency_us = {p50_us, quantile(p90, kLearntZ90), quantile(p99, kLearntZ99)};
  if (!estimators.empty()) {
    out.estimator = std::max_element(estimators.begin(), estimators.end(), [](const auto& a, const auto& b) {
                      return a.second < b.second;
                    })->first;
  }
  return out;
}

absl::StatusOr<GraphEstimate> ComposeGraph(
    const Graph& graph, const std::vector<Kernel>& kernels, const ExecutionModel& execution,
    const std::function<absl::StatusOr<Estimate>(const Kernel&)>& estimate_kernel) {
  std::vector<GraphPart> parts;
  PartsByWork seen(parts);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing == Costing::kFree) continue;
    const Kernel& kernel = kernels[i];
    if (const auto part = seen.Find(kernel); part.has_value()) {
      ++parts[*part].count;
      continue;
    }
    absl::StatusOr<Estimate> estimate = estimate_kernel(kernel);
    if (!estimate.ok()) return InField(fmt::format("nodes[{}] ({})", i, kernel.name), estimate.status());
    parts.push_back({kernel, 1, *std::move(estimate)});
    seen.Add(parts.size() - 1);
  }
  GraphEstimate out = ComposeParts(std::move(parts), execution);
  out.memory_bytes = MemoryBytes(graph, kernels);
  out.warnings = graph.warnings;
  return out;
}

std::int64_t MemoryBytes(const Graph& graph, const std::vector<Kernel>& kernels) {
  const std::size_t n = kernels.size();
  std::vector<std::size_t> last_use(n);
  for (std::size_t i = 0; i < n; ++i) {
    last_use[i] = i;
    for (int input : graph.nodes[i].inputs) last_use[static_cast<std::size_t>(input)] = i;
  }
  std::vector<std::vector<std::size_t>> dies_at(n);
  for (std::size_t i = 0; i < n; ++i) dies_at[last_use[i]].push_back(i);
  const auto output_bytes = [&](std::size_t i) {
    return graph.nodes[i].costing == Costing::kFree ? std::int64_t{0} : CountsOf(kernels[i]).bytes_written.value();
  };
  // What attention reads while decoding is the cache: it stays.
  __int128 cache = 0;
  for (const Kernel& kernel : kernels) {
    const auto* attention = std::get_if<Attention>(&kernel.work);
    if (attention == nullptr || attention->phase != Attention::Phase::kDecode) continue;
    cache += CountsOf(kernel).bytes_read.value();
  }
  __int128 live = 0;  // each output is below 2^62 bytes
  __int128 most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    live += output_bytes(i);
    most = std::max(most, live);
    for (std::size_t dead : dies_at[i]) live -= output_bytes(dead);
  }
  return static_cast<std::int64_t>(
      std::min<__int128>(graph.parameter_bytes + cache + most, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace gpueta
