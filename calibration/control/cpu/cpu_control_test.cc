#include "calibration/control/cpu/cpu_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "calibration/backends/cpu/openmp.h"
#include "calibration/control/card/testing_simulated_card.h"
#include "calibration/control/cpu/antagonist.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing_util::SimulatedCard;

cpu_set_t Affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

int Cores() {
  const cpu_set_t set = Affinity();
  return CPU_COUNT(&set);
}

// A machine with cpufreq, as sysfs shows it.
class SimulatedClocks {
 public:
  SimulatedClocks() {
    for (int core = 0; core < CPU_SETSIZE && core < 1024; ++core) {
      const cpu_set_t set = Affinity();
      if (!CPU_ISSET(core, &set)) continue;
      Set(core, "cpuinfo_min_freq", "800000");
      Set(core, "cpuinfo_max_freq", "3250000");
      Set(core, "scaling_max_freq", "3250000");
      last_core_ = core;
    }
  }
  void Set(int core, const std::string& setting, const std::string& value) {
    card_.Set(fmt::format("cpu{}/cpufreq/{}", core, setting), value);
  }
  std::string Limit() const { return card_.Get(fmt::format("cpu{}/cpufreq/scaling_max_freq", last_core_)); }
  int last_core() const { return last_core_; }
  CpuControlOptions Options(bool allowed) const {
    return {.allow_card_settings = allowed,
            .guard = {.state_directory = card_.state(), .program = GPUETA_CARD_GUARD_BINARY},
            .settings_directory = card_.directory()};
  }

 private:
  SimulatedCard card_;
  int last_core_ = 0;
};

TEST(CpuControlTest, WorkStaysOnTheUnitsThatAreLeft) {
  const cpu_set_t before = Affinity();
  const int threads = omp_get_max_threads();
  const auto control = OpenCpuControl().value();
  EXPECT_EQ(control->space().range(Knob::kUnits)->most, CPU_COUNT(&before));
  Configuration one = Unrestricted(control->space());
  At(one, Knob::kUnits) = 1;
  const auto backend = control->Apply(one);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_THAT((*backend)->slug(), EndsWith("-1t"));
  EXPECT_EQ(omp_get_max_threads(), 1);
  EXPECT_EQ(Cores(), 1);
  ASSERT_TRUE(control->Restore().ok());
  const cpu_set_t after = Affinity();
  EXPECT_TRUE(CPU_EQUAL(&after, &before));
  EXPECT_EQ(omp_get_max_threads(), threads);
}

TEST(CpuControlTest, RefusesWhatIsNotPossible) {
  const auto control = OpenCpuControl().value();
  Configuration none = Unrestricted(control->space());
  At(none, Knob::kUnits) = 0;
  EXPECT_EQ(control->Apply(none).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuControlTest, ContentionComesFromTheUnitsThatAreLeftOver) {
  if (Cores() < 2) GTEST_SKIP() << "needs two cores";
  const auto control = OpenCpuControl().value();
  Configuration contended = Unrestricted(control->space());
  At(contended, Knob::kUnits) = 1;
  At(contended, Knob::kContention) = 1;
  ASSERT_TRUE(control->Apply(contended).ok());
  At(contended, Knob::kUnits) = Cores() + 1;
  EXPECT_FALSE(control->Apply(contended).ok());
}

TEST(CpuControlTest, ClocksAreSetOnlyIfAllowedAndRestored) {
  const SimulatedClocks clocks;
  EXPECT_FALSE(OpenCpuControl(clocks.Options(false)).value()->space().range(Knob::kCoreClock).has_value());
  const auto control = OpenCpuControl(clocks.Options(true)).value();
  const auto& range = control->space().range(Knob::kCoreClock);
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->most, 3250);
  EXPECT_EQ(range->least, 850);
  Configuration slow = Unrestricted(control->space());
  At(slow, Knob::kCoreClock) = 1650;
  ASSERT_TRUE(control->Apply(slow).ok());
  EXPECT_EQ(clocks.Limit(), "1650000");
  ASSERT_TRUE(control->Restore().ok());
  EXPECT_EQ(clocks.Limit(), "3250000");
}

TEST(CpuControlTest, WithoutClocksToSetTheOtherKnobsStay) {
  const SimulatedCard nothing;
  const auto control = OpenCpuControl({.allow_card_settings = true, .settings_directory = nothing.directory()});
  ASSERT_TRUE(control.ok()) << control.status();
  EXPECT_FALSE((*control)->space().range(Knob::kCoreClock).has_value());
  EXPECT_TRUE((*control)->space().range(Knob::kUnits).has_value());
}

TEST(CpuControlTest, CoresOfTwoKindsAreNamed) {
  if (Cores() < 2) GTEST_SKIP() << "needs two cores";
  SimulatedClocks clocks;
  clocks.Set(clocks.last_core(), "cpuinfo_max_freq", "2000000");
  EXPECT_THAT(MessageOf(OpenCpuControl(clocks.Options(true)).status()), HasSubstr("up to 2000 MHz"));
}

TEST(AntagonistTest, KnowsHowMuchOfItsTimeItDidNotGet) {
  const cpu_set_t set = Affinity();
  int core = 0;
  while (!CPU_ISSET(core, &set)) ++core;
  // Two of them on one core: each gets about half.
  const std::vector<int> twice = {core, core};
  const auto antagonist = Antagonist::Start(twice, 1).value();
  const double start_us = SteadyMicroseconds();
  while (SteadyMicroseconds() < start_us + 200'000) sched_yield();
  EXPECT_GT(antagonist->StarvedShare(), 0.2);
  EXPECT_LE(antagonist->StarvedShare(), 1);
}

}  // namespace
}  // namespace gpueta
