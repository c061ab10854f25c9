#include "calibration/backends/cuda/timing/clocks.h"

#include <algorithm>

namespace gpueta {
namespace {

// Boost clocks move in steps of 15 MHz with temperature: about 1 % each.
constexpr double kBoostSteps = 0.03;

constexpr double kFirstPauseUs = 5'000;
constexpr double kLongestPauseUs = 1'280'000;  // 2.6 s with those before
constexpr double kHopelessUs = 60e6;

bool HeldBack(const CardState& state) {
  return state.Limited(ClockLimit::kPowerCap) || state.Limited(ClockLimit::kHardware) ||
         state.Limited(ClockLimit::kSoftThermal) || state.Limited(ClockLimit::kHardThermal) ||
         state.Limited(ClockLimit::kPowerBrake) || state.Limited(ClockLimit::kSyncBoost);
}

}  // namespace

Condition ClockWatch::ConditionOf(const CardState& before, const CardState& after) {
  highest_mhz_ = std::max({highest_mhz_, before.sm_clock_mhz, after.sm_clock_mhz});
  const double lowest_mhz = std::min(before.sm_clock_mhz, after.sm_clock_mhz);
  const bool set = before.Limited(ClockLimit::kSetting) || after.Limited(ClockLimit::kSetting);
  const bool slow = !set && lowest_mhz < (1 - kBoostSteps) * highest_mhz_;
  return slow || HeldBack(before) || HeldBack(after) ? Condition::kSlowed : Condition::kUndisturbed;
}

double CoolDown::PauseUs(Condition last, double now_us) {
  if (last != Condition::kSlowed) {
    next_us_ = 0;
    return 0;
  }
  if (now_us < hopeless_until_us_) return 0;
  if (next_us_ > kLongestPauseUs) {
    next_us_ = 0;
    hopeless_until_us_ = now_us + kHopelessUs;
    return 0;
  }
  const double pause_us = std::max(next_us_, kFirstPauseUs);
  next_us_ = 2 * pause_us;
  return pause_us;
}

}  // namespace gpueta
