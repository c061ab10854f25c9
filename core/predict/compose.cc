#include "core/predict/compose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kOverlapPower = 2.3;

bool SameWork(const Kernel& a, const Kernel& b) {
  return a.dtype == b.dtype && a.work == b.work && a.launch == b.launch;
}

std::uint64_t HashOfWork(const Kernel& kernel) {
  return (static_cast<std::uint64_t>(HashOf(kernel)) << 16) ^ (static_cast<std::uint64_t>(kernel.op()) << 8) ^
         static_cast<std::uint64_t>(kernel.dtype);
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
  double kernels_us = 0;
  std::int64_t launches = 0;
  for (const GraphPart& part : out.parts) {
    kernels_us += static_cast<double>(part.count) * part.estimate.latency_us.p50;
    launches += part.count;
  }
  const double gaps_us = execution.gap_us * static_cast<double>(launches);
  const double host_us = execution.host_issue_us * static_cast<double>(launches);
  out.time = {kernels_us, gaps_us, host_us};
  // Gaps and host are no part of the kernels' errors.
  const auto total = [&](double error_ln) {
    const double us = gaps_us + kernels_us * std::exp(error_ln);
    return host_us > 0 ? std::pow(std::pow(us, kOverlapPower) + std::pow(host_us, kOverlapPower), 1 / kOverlapPower)
                       : us;
  };
  ErrorSum p90, p99;
  std::map<std::string_view, double> estimators;
  for (const GraphPart& part : out.parts) {
    const Quantiles& q = part.estimate.latency_us;
    const double us = static_cast<double>(part.count) * q.p50;
    if (us <= 0) continue;
    const double weight = us / kernels_us;
    p90.Add(part.kernel, weight * std::log(q.p90 / q.p50));
    p99.Add(part.kernel, weight * std::log(q.p99 / q.p50));
    out.provenance[part.estimate.provenance] += us;
    estimators[part.estimate.estimator] += us;
  }
  for (auto& [kind, us] : out.provenance) us /= kernels_us;
  out.latency_us = {total(0), total(p90.Combined()), total(p99.Combined())};
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
