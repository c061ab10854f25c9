#include "calibration/control/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "calibration/control/testing_simulated_host.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using testing_util::HiddenDevice;
using testing_util::SimulatedHost;

std::vector<ClassGoal> GoalsFor(const HiddenDevice& target) {
  const DeviceRates rates{.spec = target.Sheet()};
  std::vector<ClassGoal> goals = {{.kernels = {Limit::kCompute}, .weight = 0.6},
                                  {.kernels = {Limit::kMemory}, .weight = 0.4}};
  for (ClassGoal& goal : goals) goal.log_rate = LogRate(rates, goal.kernels);
  return goals;
}

// Answers with a simulated host's sheet, off by some noise as a measurement is.
class Prober {
 public:
  explicit Prober(const SimulatedHost& host, double noise = 0) : host_(host), noise_(noise) {}
  absl::StatusOr<DeviceRates> operator()(const Configuration& configuration) {
    EXPECT_TRUE(IsPossible(host_.space(), configuration)) << Describe(host_.space(), configuration);
    EXPECT_TRUE(seen_.insert(configuration).second) << "twice: " << Describe(host_.space(), configuration);
    HiddenDevice device = host_.Restricted(configuration);
    device.tflops *= std::exp(noise_ * normal_(generator_));
    device.bandwidth_gb_s *= std::exp(noise_ * normal_(generator_));
    return DeviceRates{.spec = device.Sheet()};
  }

 private:
  const SimulatedHost& host_;
  double noise_;
  std::set<Configuration> seen_;
  std::mt19937 generator_{3};
  std::normal_distribution<double> normal_;
};

SearchResult Find(const SimulatedHost& host, const HiddenDevice& target, double noise = 0) {
  Prober prober(host, noise);
  const Configuration all = Unrestricted(host.space());
  return FindConfiguration(host.space(), GoalsFor(target), {all, prober(all).value()}, std::ref(prober)).value();
}

TEST(SearchTest, ReachesAnyWeakerTargetInAFewProbes) {
  const SimulatedHost host({}, SimulatedHost::FullSpace());
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> share(0.15, 1);
  std::size_t most_probes = 0;
  for (int i = 0; i < 50; ++i) {
    HiddenDevice target;
    target.tflops *= share(generator);
    target.bandwidth_gb_s *= share(generator);
    // Few units cannot use more than this.
    const double units = target.tflops / HiddenDevice().tflops;
    const double usable = (1 - std::pow(1 - units / 0.3, 2.5)) * HiddenDevice().bandwidth_gb_s;
    if (units < 0.3) target.bandwidth_gb_s = std::min(target.bandwidth_gb_s, usable);
    if (target.bandwidth_gb_s < 0.3 * HiddenDevice().bandwidth_gb_s) target.bandwidth_gb_s *= 2;
    const SearchResult found = Find(host, target);
    EXPECT_LT(Distance(GoalsFor(target), found.probes[found.nearest].rates), 0.05)
        << target.tflops << " TFLOPS, " << target.bandwidth_gb_s << " GB/s with "
        << Describe(host.space(), found.probes[found.nearest].configuration) << " after " << found.probes.size();
    most_probes = std::max(most_probes, found.probes.size());
  }
  EXPECT_LE(most_probes, 10U);
}

TEST(SearchTest, ATargetLikeTheHostNeedsNoSecondProbe) {
  const SearchResult found = Find(SimulatedHost({}, SimulatedHost::FullSpace()), {});
  EXPECT_EQ(found.probes.size(), 1U);
}

TEST(SearchTest, LooksAtWhatFewerUnitsLeaveBeforeItContends) {
  HiddenDevice target;
  target.tflops *= 0.5;
  target.bandwidth_gb_s *= 0.4;
  const SearchResult found = Find(SimulatedHost({}, SimulatedHost::FullSpace()), target);
  ASSERT_GT(found.probes.size(), 2U);
  EXPECT_EQ(At(found.probes[1].configuration, Knob::kContention), 0);
  EXPECT_GT(At(found.probes[found.nearest].configuration, Knob::kContention), 0);
}

TEST(SearchTest, StopsAtTheUnrestrictedHostForATargetBeyondIt) {
  HiddenDevice target;
  target.tflops *= 3;
  target.bandwidth_gb_s *= 3;
  const SimulatedHost host({}, SimulatedHost::FullSpace());
  const SearchResult found = Find(host, target);
  EXPECT_EQ(found.probes[found.nearest].configuration, Unrestricted(host.space()));
  EXPECT_LE(found.probes.size(), 3U);
}

TEST(SearchTest, NoiseOfProbesDoesNotKeepItBusy) {
  HiddenDevice target;
  target.tflops *= 0.4;
  target.bandwidth_gb_s *= 0.5;
  const SimulatedHost host({}, SimulatedHost::FullSpace());
  const SearchResult found = Find(host, target, 0.02);
  const HiddenDevice reached = host.Restricted(found.probes[found.nearest].configuration);
  EXPECT_LT(Distance(GoalsFor(target), {.spec = reached.Sheet()}), 0.06);
}

TEST(SearchTest, PassesOnWhatStopsAProbe) {
  const SimulatedHost host({}, SimulatedHost::FullSpace());
  HiddenDevice target;
  target.tflops *= 0.4;
  const Configuration all = Unrestricted(host.space());
  const auto found = FindConfiguration(host.space(), GoalsFor(target), {all, {.spec = host.Restricted(all).Sheet()}},
                                       [](const Configuration&) { return FailedPrecondition("taken away"); });
  EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace gpueta
