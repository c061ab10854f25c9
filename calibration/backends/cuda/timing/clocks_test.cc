#include "calibration/backends/cuda/timing/clocks.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpueta {
namespace {

CardState At(double mhz, std::uint32_t limits = 0) { return {.sm_clock_mhz = mhz, .limits = limits}; }
CardState At(double mhz, ClockLimit limit) { return At(mhz, static_cast<std::uint32_t>(limit)); }

TEST(ClockWatchTest, BoostStepsAreNoThrottling) {
  ClockWatch watch;
  for (double mhz : {1980.0, 1965.0, 1950.0, 1935.0, 1980.0}) {
    EXPECT_EQ(watch.ConditionOf(At(mhz), At(mhz)), Condition::kUndisturbed) << mhz;
  }
}

TEST(ClockWatchTest, WhatTheCardAdmitsIsThrottlingWhateverTheClock) {
  for (ClockLimit limit : {ClockLimit::kPowerCap, ClockLimit::kHardware, ClockLimit::kSoftThermal,
                           ClockLimit::kHardThermal, ClockLimit::kPowerBrake, ClockLimit::kSyncBoost}) {
    ClockWatch watch;
    EXPECT_EQ(watch.ConditionOf(At(1980), At(1980, limit)), Condition::kSlowed);
    EXPECT_EQ(watch.ConditionOf(At(1980, limit), At(1980)), Condition::kSlowed);
  }
}

TEST(ClockWatchTest, ALowClockOnEitherSideIsThrottlingWithoutAReason) {
  ClockWatch watch;
  EXPECT_EQ(watch.ConditionOf(At(1980), At(1980)), Condition::kUndisturbed);
  EXPECT_EQ(watch.ConditionOf(At(1500), At(1980)), Condition::kSlowed);
  EXPECT_EQ(watch.ConditionOf(At(1980), At(1500)), Condition::kSlowed);
}

TEST(ClockWatchTest, LockedClocksAreTheCardsOwn) {
  ClockWatch watch;
  EXPECT_EQ(watch.ConditionOf(At(1980), At(1980)), Condition::kUndisturbed);
  EXPECT_EQ(watch.ConditionOf(At(900, ClockLimit::kSetting), At(900, ClockLimit::kSetting)), Condition::kUndisturbed);
}

TEST(ClockWatchTest, WithoutReadingsNothingIsSlowed) {
  ClockWatch watch;
  EXPECT_EQ(watch.ConditionOf({}, {}), Condition::kUndisturbed);
}

TEST(CoolDownTest, PausesDoubleWhileTheCardIsHot) {
  CoolDown cool_down;
  const double first = cool_down.PauseUs(Condition::kSlowed, 0);
  EXPECT_GT(first, 0);
  EXPECT_DOUBLE_EQ(cool_down.PauseUs(Condition::kSlowed, 0), 2 * first);
  EXPECT_EQ(cool_down.PauseUs(Condition::kUndisturbed, 0), 0);
  EXPECT_DOUBLE_EQ(cool_down.PauseUs(Condition::kSlowed, 0), first);
}

TEST(CoolDownTest, DoesNotWaitForACardThatStaysSlow) {
  CoolDown cool_down;
  double now_us = 0;
  double paused_us = 0;
  constexpr int kSamples = 40'000;
  constexpr double kSampleUs = 5'000;
  for (int i = 0; i < kSamples; ++i) {
    const double pause_us = cool_down.PauseUs(Condition::kSlowed, now_us);
    paused_us += pause_us;
    now_us += pause_us + kSampleUs;
  }
  EXPECT_LT(paused_us, 0.05 * now_us);
  // But is given another chance.
  EXPECT_GT(paused_us, 1e6);
}

}  // namespace
}  // namespace gpueta
