#include "calibration/control/rates.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "calibration/backends/measure.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// No class is worth nothing: a model's time is only roughly known beforehand.
constexpr double kLeastWeight = 0.02;

// What a kernel takes that the data sheets know nothing of, where the launch is
// unknown: of an ordinary device, for weights only.
constexpr double kTypicalLaunchUs = 2;

// Small enough for its work not to count.
Kernel EmptyKernel() {
  return {.dtype = DType::kFp32, .work = Vector{.op = "add", .rows = 1, .cols = 16, .operands = 2}};
}

std::optional<double> LogOf(double rate) { return rate > 0 ? std::optional(std::log(rate)) : std::nullopt; }

}  // namespace

absl::StatusOr<double> MeasureLaunchUs(Backend& backend, const MicrosecondClock& clock) {
  GPUETA_ASSIGN_OR_RETURN(const MeasuredKernel empty, MeasureKernel(backend, EmptyKernel(), {}, clock));
  return empty.timing.latency_us;
}

absl::StatusOr<DeviceRates> MeasureRates(Backend& backend, const MicrosecondClock& clock) {
  DeviceRates rates;
  GPUETA_ASSIGN_OR_RETURN(rates.spec, backend.Describe());
  GPUETA_ASSIGN_OR_RETURN(rates.launch_us, MeasureLaunchUs(backend, clock));
  return rates;
}

std::string Describe(const KernelClass& kernels) {
  switch (kernels.limit) {
    case Limit::kCompute: return fmt::format("compute {}", Name(kernels.dtype));
    case Limit::kMemory: return "memory";
    case Limit::kCache: return "cache";
    case Limit::kLaunch: return "launch";
  }
  return "?";
}

std::optional<double> LogRate(const DeviceRates& rates, const KernelClass& kernels) {
  const DeviceSpec& spec = rates.spec;
  switch (kernels.limit) {
    case Limit::kCompute: return LogOf(PeakTflops(spec, kernels.dtype));
    case Limit::kMemory: return LogOf(spec.mem_bandwidth_gb_s);
    case Limit::kCache: return LogOf(spec.l2_mb);
    case Limit::kLaunch: return LogOf(rates.launch_us > 0 ? 1 / rates.launch_us : 0);
  }
  return std::nullopt;
}

ByLimit ShareOfEachLimit(const Kernel& kernel, const DeviceRates& rates) {
  const DeviceSpec spec = WithInferredCells(rates.spec);
  const Counts counts = CountsOf(kernel);
  const double compute_us = static_cast<double>(counts.flops.value()) / PeakTflops(spec, kernel.dtype) / 1e6;
  const double memory_us = static_cast<double>(counts.bytes().value()) / spec.mem_bandwidth_gb_s / 1e3;
  const double launch_us = rates.launch_us > 0 ? rates.launch_us : kTypicalLaunchUs;
  // t = (Tc² + Tm²)^½ + launch
  const double squares = compute_us * compute_us + memory_us * memory_us;
  const double body_us = std::sqrt(squares);
  const double body = body_us / (body_us + launch_us);
  ByLimit shares{};
  if (squares > 0) {
    shares[static_cast<std::size_t>(Limit::kCompute)] = body * compute_us * compute_us / squares;
    shares[static_cast<std::size_t>(Limit::kMemory)] = body * memory_us * memory_us / squares;
  }
  shares[static_cast<std::size_t>(Limit::kLaunch)] = 1 - body;
  return shares;
}

std::vector<ClassGoal> GoalsOf(std::span<const Kernel> kernels, const DeviceRates& target, const DeviceSpec* host_sheet,
                               const DeviceRates& host) {
  const DeviceSpec spec = WithInferredCells(target.spec);
  std::map<KernelClass, double> weights;
  double total = 0;
  for (const Kernel& kernel : kernels) {
    const Counts counts = CountsOf(kernel);
    const double us = static_cast<double>(counts.flops.value()) / PeakTflops(spec, kernel.dtype) / 1e6 +
                      static_cast<double>(counts.bytes().value()) / spec.mem_bandwidth_gb_s / 1e3;
    const ByLimit shares = ShareOfEachLimit(kernel, target);
    for (const Limit limit : kLimits) {
      const DType dtype = limit == Limit::kCompute ? kernel.dtype : DType::kFp32;
      weights[{limit, dtype}] += us * shares[static_cast<std::size_t>(limit)];
    }
    total += us;
  }
  std::vector<ClassGoal> goals;
  for (const auto& [kernel_class, us] : weights) {
    ClassGoal goal{.kernels = kernel_class, .weight = kLeastWeight + (total > 0 ? us / total : 0)};
    goal.log_rate = LogRate(target, kernel_class);
    if (goal.log_rate.has_value() && host_sheet != nullptr) {
      const auto measured = LogRate(host, kernel_class);
      const auto listed = LogRate({.spec = *host_sheet}, kernel_class);
      if (measured.has_value() && listed.has_value()) *goal.log_rate += *measured - *listed;
    }
    goals.push_back(goal);
  }
  return goals;
}

double Distance(std::span<const ClassGoal> goals, const DeviceRates& rates) {
  double squares = 0;
  double weights = 0;
  for (const ClassGoal& goal : goals) {
    const std::optional<double> rate = LogRate(rates, goal.kernels);
    if (!goal.log_rate.has_value() || !rate.has_value()) continue;
    squares += goal.weight * std::pow(*rate - *goal.log_rate, 2);
    weights += goal.weight;
  }
  return weights > 0 ? std::sqrt(squares / weights) : 0;
}

}  // namespace gpueta
