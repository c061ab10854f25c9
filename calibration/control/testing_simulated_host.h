// A made-up device that can be restricted, for tests of what stands above
// DeviceControl: it knows the true latency on any target.
#pragma once

#include <memory>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "calibration/backends/timing.h"
#include "calibration/control/card/guarded_card.h"
#include "calibration/control/device_control.h"

namespace gpueta::testing_util {

// What a simulated device is, unknown to what is tested but for what Describe
// and timed kernels tell.
struct HiddenDevice {
  std::string slug = "simulated-host";
  std::string name = "Simulated";
  double tflops = 40;
  double bandwidth_gb_s = 800;
  double cache_mb = 32;
  double launch_us = 2;
  double noise = 0.01;  // standard deviation of one sample, in ln

  DeviceSpec Sheet() const;
  // Without noise: launch, and arithmetic and traffic that overlap a little. No
  // operator reaches the peak, each misses it by a share of its own; what fits
  // into the cache is read four times as fast.
  double LatencyUs(const Kernel& kernel) const;
};

// Restricts a simulated device: units and clock scale arithmetic; bandwidth follows
// the memory clock, saturates before all units are used, and contention takes most of it.
class SimulatedHost : public DeviceControl {
 public:
  static constexpr double kUnits = 32;
  static constexpr double kMostClockMhz = 2000;

  SimulatedHost(HiddenDevice device, ControlSpace space) : device_(std::move(device)), space_(space) {}
  ~SimulatedHost() override;

  // All knobs but the memory clock and the cache.
  static ControlSpace FullSpace();

  // Clocks become settings of a card, made through `card`.
  void UseCard(std::unique_ptr<GuardedCard> card) { card_ = std::move(card); }
  static constexpr const char* kClockSetting = "sm_clock_mhz";
  static constexpr const char* kMemoryClockSetting = "memory_clock_mhz";

  const ControlSpace& space() const override { return space_; }
  absl::StatusOr<Backend*> Apply(const Configuration& configuration) override;
  absl::StatusOr<DeviceSpec> MeasureSpec() override;
  std::string Disturbance() const override { return disturbance; }
  absl::Status Restore() override;

  HiddenDevice Restricted(const Configuration& configuration) const;
  bool restored() const { return backend_ == nullptr; }

  std::string disturbance;  // what Disturbance says
  int applied = 0;          // calls of Apply
  int fails_at = -1;        // this call of Apply fails
  int slower_from = -1;     // from this measurement of the specification on, it is half as fast

 private:
  HiddenDevice device_;
  ControlSpace space_;
  std::unique_ptr<GuardedCard> card_;
  int measured_ = 0;  // specifications
  std::unique_ptr<Backend> backend_;
};

// Time that passes by 100 us at each look.
MicrosecondClock SimulatedClock();

}  // namespace gpueta::testing_util
