#include "core/predict/compose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

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
    const double us = part.ExposedUs();
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

namespace {

double HostIssueUs(const Kernel& kernel, const ExecutionModel& execution, bool training) {
  return execution.learnt != nullptr ? execution.learnt->IssueUs(RunKernelOf(kernel), training)
                                     : execution.host_issue_us;
}

bool IsTraining(const std::vector<GraphPart>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](const GraphPart& part) { return IsOfTraining(RunKernelOf(part.kernel)); });
}

// `host_share`: of the parts' host time, what is on the critical path's devices.
GraphEstimate Compose(std::vector<GraphPart> parts, const ExecutionModel& execution, double host_share) {
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
  const bool training = IsTraining(out.parts);
  for (const GraphPart& part : out.parts) {
    step.kernels_us += part.ExposedUs();
    step.gaps_us += static_cast<double>(part.count - part.hidden) * execution.gap_us;
    step.host_us += static_cast<double>(part.count) * HostIssueUs(part.kernel, execution, training);
  }
  step.host_us *= host_share;
  if (execution.learnt != nullptr) {
    step.host_us *= of_host;
    step.copy_us = of_host * execution.learnt->CopyUs(execution.input_bytes);
    step.start_us = of_host * execution.learnt->StepFixedUs() + step.copy_us;
  } else {
    step.start_us = execution.copy_us;
  }
  out.time = {step.kernels_us, step.gaps_us, step.host_us, step.start_us};
  ErrorSum p90, p99;
  std::map<std::string_view, double> estimators;
  for (const GraphPart& part : out.parts) {
    const Quantiles& q = part.estimate.latency_us;
    const double us = part.ExposedUs();
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

// How much longer the step takes when every collective is as slow as its own
// quantile: what hides at the median may not hide then.
double WithSlowCollectives(const Graph& graph, const std::vector<Kernel>& kernels, const std::vector<GraphPart>& parts,
                           NodeTimes times, const Schedule& schedule, double Quantiles::*quantile) {
  double all_us = 0;
  for (const GraphPart& part : parts) {
    if (part.kernel.op() == Op::kCollective) all_us += static_cast<double>(part.count) * part.estimate.latency_us.p50;
  }
  ErrorSum errors;
  for (const GraphPart& part : parts) {
    const Quantiles& q = part.estimate.latency_us;
    if (part.kernel.op() != Op::kCollective) continue;
    errors.Add(part.kernel, static_cast<double>(part.count) * q.p50 / all_us * std::log(q.*quantile / q.p50));
  }
  const double slower = std::exp(errors.Combined());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].op() == Op::kCollective) times.us[i] *= slower;
  }
  return ScheduleOf(graph, times).end_us / schedule.end_us;
}

constexpr std::size_t kNoPart = std::numeric_limits<std::size_t>::max();

// `part_of`: each node's part, or kNoPart.
NodeTimes TimesOf(const std::vector<GraphPart>& parts, const std::vector<std::size_t>& part_of,
                  const ExecutionModel& execution) {
  const bool training = IsTraining(parts);
  std::vector<double> host_us;
  for (const GraphPart& part : parts) host_us.push_back(HostIssueUs(part.kernel, execution, training));
  NodeTimes times{std::vector<double>(part_of.size()), std::vector<double>(part_of.size()), execution.gap_us};
  for (std::size_t i = 0; i < part_of.size(); ++i) {
    if (part_of[i] == kNoPart) continue;
    times.us[i] = parts[part_of[i]].estimate.latency_us.p50;
    times.host_us[i] = host_us[part_of[i]];
  }
  return times;
}

}  // namespace

GraphEstimate ComposeParts(std::vector<GraphPart> parts, const ExecutionModel& execution) {
  return Compose(std::move(parts), execution, 1);
}

NodeTimes NodeTimesOf(const Graph& graph, const std::vector<Kernel>& kernels, const std::vector<GraphPart>& parts,
                      const ExecutionModel& execution) {
  PartsByWork by_work(parts);
  for (std::size_t i = 0; i < parts.size(); ++i) by_work.Add(i);
  std::vector<std::size_t> part_of(kernels.size(), kNoPart);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing != Costing::kFree) part_of[i] = by_work.Find(kernels[i]).value_or(kNoPart);
  }
  return TimesOf(parts, part_of, execution);
}

absl::StatusOr<GraphEstimate> ComposeGraph(
    const Graph& graph, const std::vector<Kernel>& kernels, const ExecutionModel& execution,
    const std::function<absl::StatusOr<Estimate>(const Kernel&)>& estimate_kernel) {
  std::vector<GraphPart> parts;
  PartsByWork seen(parts);
  std::vector<std::size_t> part_of(kernels.size(), kNoPart);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing == Costing::kFree) continue;
    const Kernel& kernel = kernels[i];
    if (const auto part = seen.Find(kernel); part.has_value()) {
      part_of[i] = *part;
      continue;
    }
    absl::StatusOr<Estimate> estimate = estimate_kernel(kernel);
    if (!estimate.ok()) return InField(fmt::format("nodes[{}] ({})", i, kernel.name), estimate.status());
    part_of[i] = parts.size();
    parts.push_back({kernel, 0, *std::move(estimate)});
    seen.Add(parts.size() - 1);
  }
  const NodeTimes times = TimesOf(parts, part_of, execution);
  const Schedule schedule = ScheduleOf(graph, times);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (part_of[i] == kNoPart) continue;
    parts[part_of[i]].count += schedule.runs[i];
    parts[part_of[i]].hidden += schedule.runs[i] - schedule.on_path[i];
  }
  GraphEstimate out = Compose(std::move(parts), execution, schedule.host_share);
  const bool overlaps = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                    [](const GraphNode& node) { return node.stream == DeviceStream::kCommunication; });
  if (overlaps && schedule.end_us > 0) {
    const auto slow = [&](double Quantiles::*quantile) {
      return out.latency_us.p50 * WithSlowCollectives(graph, kernels, out.parts, times, schedule, quantile);
    };
    out.latency_us.p90 = std::max(out.latency_us.p90, slow(&Quantiles::p90));
    out.latency_us.p99 = std::max({out.latency_us.p99, out.latency_us.p90, slow(&Quantiles::p99)});
  }
  out.memory_bytes = MemoryBytes(graph, kernels);
  out.warnings = graph.warnings;
  if (const int stages = StagesOf(graph); stages > 1 && schedule.end_us > 0) {
    double busy_us = 0;
    for (const ScheduledBlock& block : schedule.blocks) busy_us += block.end_us - block.start_us;
    out.warnings.push_back(fmt::format("{} stages with {} microbatches: devices idle {:.0f} % of the step", stages,
                                       graph.microbatches, 100 * (1 - busy_us / (stages * schedule.end_us))));
  }
  return out;
}

namespace {

using Bytes = __int128;  // each output is below 2^62 bytes

// What is exchanged in place of what ranks keep: it takes no memory of its own.
bool IsInPlace(const GraphNode& node) {
  if (node.stream != DeviceStream::kCommunication) return false;
  const auto* collective = std::get_if<Collective>(&node.kernel.work);
  return node.turn == Turn::kStep || (collective != nullptr && collective->op == "reduce_scatter");
}

Bytes OutputBytes(const GraphNode& node, const Kernel& kernel) {
  if (node.costing == Costing::kFree || IsInPlace(node)) return 0;
  const auto* collective = std::get_if<Collective>(&kernel.work);
  if (collective == nullptr || node.stream == DeviceStream::kCommunication)
    return CountsOf(kernel).bytes_written.value();
  return collective->op == "reduce_scatter" ? collective->bytes / collective->ranks : collective->bytes;
}

// The stage whose memory holds a node's output: of what is sent the receiver.
int HomeOf(const GraphNode& node) {
  const auto* collective = std::get_if<Collective>(&node.kernel.work);
  if (collective == nullptr || collective->op != "send_recv") return node.stage;
  return node.turn == Turn::kBackward ? std::max(node.stage - 1, 0) : node.stage + 1;
}

// Activations and cache of one stage.
Bytes StageBytes(const Graph& graph, const std::vector<Kernel>& kernels, int stage, std::int64_t in_flight) {
  const std::size_t n = kernels.size();
  const auto output_bytes = [&](std::size_t i) { return OutputBytes(graph.nodes[i], kernels[i]); };
  std::vector<std::size_t> last_use(n);
  std::vector<char> kept(n);  // forward outputs that the backward pass reads
  for (std::size_t i = 0; i < n; ++i) {
    last_use[i] = i;
    const GraphNode& node = graph.nodes[i];
    // What runs once reads what is kept anyway: gradients and parameters.
    if (node.turn == Turn::kStep) continue;
    for (const int input : node.inputs) {
      const auto at = static_cast<std::size_t>(input);
      last_use[at] = i;
      kept[at] = node.turn == Turn::kBackward && graph.nodes[at].turn == Turn::kForward;
    }
  }
  std::vector<std::vector<std::size_t>> dies_at(n);
  for (std::size_t i = 0; i < n; ++i) dies_at[last_use[i]].push_back(i);
  Bytes live = 0, most = 0, held = 0, cache = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bool here = HomeOf(graph.nodes[i]) == stage;
    if (here) live += output_bytes(i);
    most = std::max(most, live);
    for (const std::size_t dead : dies_at[i]) {
      if (HomeOf(graph.nodes[dead]) == stage) live -= output_bytes(dead);
    }
    if (!here) continue;
    if (kept[i] != 0) held += output_bytes(i);
    // What attention reads while decoding is the cache: it stays.
    const auto* attention = std::get_if<Attention>(&kernels[i].work);
    if (attention != nullptr && attention->phase == Attention::Phase::kDecode)
      cache += CountsOf(kernels[i]).bytes_read.value();
  }
  return cache + most + (in_flight - 1) * held;
}

}  // namespace

std::int64_t MemoryBytes(const Graph& graph, const std::vector<Kernel>& kernels) {
  const int stages = StagesOf(graph);
  const bool trains = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                  [](const GraphNode& node) { return node.turn == Turn::kBackward; });
  Bytes most = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const std::int64_t in_flight = trains ? std::min<std::int64_t>(stages - stage, graph.microbatches) : 1;
    most = std::max(most, StageBytes(graph, kernels, stage, in_flight));
  }
  const Bytes kept = Bytes{graph.parameter_bytes} + graph.gradient_bytes + graph.optimiser_bytes;
  return static_cast<std::int64_t>(std::min<Bytes>(kept + most, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace gpueta
