#include "calibration/backends/cpu/interference.h"

#include <gtest/gtest.h>

#include "calibration/backends/cpu/openmp.h"

namespace gpueta {
namespace {

TEST(SpoilsTest, CountsLostTimeAgainstTheLatency) {
  const struct {
    Interference after;
    double wall_us;
    bool spoils;
  } kCases[] = {
      {{.waiting_us = 100, .steal_us = 0}, 20, false},      // nothing happened since
      {{.waiting_us = 4'100, .steal_us = 0}, 20, true},     // waited for a time slice
      {{.waiting_us = 103, .steal_us = 0}, 50'000, false},  // three microseconds in fifty milliseconds
      {{.waiting_us = 100, .steal_us = 10'000}, 50'000, true},
  };
  const Interference before{.waiting_us = 100, .steal_us = 0};
  for (const auto& c : kCases) EXPECT_EQ(Spoils(before, c.after, c.wall_us), c.spoils) << c.after.waiting_us;
}

TEST(ParsingTest, ReadsWaitingTime) {
  EXPECT_EQ(ParseWaitingNs("5379648 5824432 3\n"), 5'824'432);
  EXPECT_EQ(ParseWaitingNs(""), 0);
  EXPECT_EQ(ParseWaitingNs("abc"), 0);
}

TEST(ParsingTest, ReadsStealTime) {
  EXPECT_EQ(ParseStealTicks("cpu  5191 0 3043 207695 326 0 40 8 0 0\ncpu0 1 1 1 1 1 1 1 1\n"), 8);
  EXPECT_EQ(ParseStealTicks("cpu  5191 0\n"), 0);
  EXPECT_EQ(ParseStealTicks(""), 0);
}

TEST(CoresAreApartTest, TellsOneCacheFromTwo) {
  EXPECT_FALSE(CoresAreApart(0));    // one thread
  EXPECT_FALSE(CoresAreApart(130));  // measured on one core complex
  EXPECT_TRUE(CoresAreApart(440));   // measured on two
}

TEST(MonitorTest, TotalsNeverDecrease) {
  const InterferenceMonitor monitor;
  const Interference before = monitor.Read(InterferenceMonitor::Steal::kRead);
  const Interference after = monitor.Read(InterferenceMonitor::Steal::kRead);
  EXPECT_GE(after.waiting_us, before.waiting_us);
  EXPECT_GE(after.steal_us, before.steal_us);
}

TEST(RoundTripTest, TakesTimeExactlyWhenThereIsAnotherThread) {
  EXPECT_EQ(CoreRoundTripNs() > 0, omp_get_max_threads() > 1);
}

}  // namespace
}  // namespace gpueta
