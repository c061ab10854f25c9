// What a device can do at most, by classes of kernels.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "core/device/spec.h"
#include "core/ops/kernel.h"

namespace gpueta {

struct DeviceRates {
  DeviceSpec spec;       // peak rate of each dtype, bandwidth, last-level cache
  double launch_us = 0;  // what a kernel takes that does nothing; 0: unknown
};

// Errors as MeasureKernel.
absl::StatusOr<double> MeasureLaunchUs(Backend& backend, const MicrosecondClock& clock);

// Of the whole device, as it describes itself. Errors as Backend::Describe.
absl::StatusOr<DeviceRates> MeasureRates(Backend& backend, const MicrosecondClock& clock);

// What limits the kernels of a class.
enum class Limit : std::uint8_t { kCompute, kMemory, kCache, kLaunch };
inline constexpr Limit kLimits[] = {Limit::kCompute, Limit::kMemory, Limit::kCache, Limit::kLaunch};
inline constexpr std::size_t kLimitCount = std::size(kLimits);
using ByLimit = std::array<double, kLimitCount>;

struct KernelClass {
  Limit limit = Limit::kCompute;
  DType dtype = DType::kFp32;  // of compute only

  friend auto operator<=>(const KernelClass&, const KernelClass&) = default;
};
// "compute fp32", "memory".
std::string Describe(const KernelClass& kernels);

// ln of what the class is limited by, the more the faster: TFLOPS, GB/s, MB,
// launches a µs. nullopt if unknown.
std::optional<double> LogRate(const DeviceRates& rates, const KernelClass& kernels);

// By how many percent a perfect kernel's latency would fall for each percent
// more of a rate: the roofline's, its corner rounded, and the launch in front
// of it. The cache's is 0.
ByLimit ShareOfEachLimit(const Kernel& kernel, const DeviceRates& rates);

// What a configuration should reach.
struct ClassGoal {
  KernelClass kernels;
  double weight = 0;               // share of the model's time that the class limits
  std::optional<double> log_rate;  // unknown: nothing to reach
};

// The classes of a model's kernels with the target's rates. Where data sheets
// of both devices are compared, `host_sheet` and `host` (the same device
// measured) say how far sheets are from what is measured here; nullptr: the
// target's rates are as measured.
std::vector<ClassGoal> GoalsOf(std::span<const Kernel> kernels, const DeviceRates& target, const DeviceSpec* host_sheet,
                               const DeviceRates& host);

// Root of the weighted mean square of ln(rate / goal) over the known classes.
double Distance(std::span<const ClassGoal> goals, const DeviceRates& rates);

}  // namespace gpueta
