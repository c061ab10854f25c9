#include "core/feedback/profile_policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace gpueta {
namespace {

// Losses whose difference has this mean and deviation.
PairedLosses Make(std::int64_t count, double mean, double deviation) {
  return {.count = count, .mean = mean, .squared_sum = deviation * deviation * static_cast<double>(count - 1)};
}

TEST(ProfilePolicyTest, StepsByTheTable) {
  using enum ProfileStep;
  using enum ProfilePolicy;
  using enum ShadowRole;
  const struct {
    const char* what;
    ProfilePolicy policy;
    ShadowRole shadow;
    PairedLosses losses;
    ProfileStep step;
  } kCases[] = {
      {"too few", kAuto, kNew, Make(199, -0.5, 0.01), kWait},
      {"better", kAuto, kNew, Make(200, -0.05, 0.1), kPromote},
      {"better, within the noise", kAuto, kNew, Make(200, -0.05, 0.5), kWait},
      {"better by nothing that matters", kAuto, kNew, Make(5000, -0.001, 0.01), kWait},
      {"worse", kAuto, kNew, Make(200, 0.05, 0.1), kDiscard},
      {"no difference for long", kAuto, kNew, Make(20'000, 0.0001, 0.1), kDiscard},
      {"better, but a person decides", kManual, kNew, Make(5000, -0.05, 0.1), kWait},
      {"worse, nothing to decide", kManual, kNew, Make(5000, 0.05, 0.1), kDiscard},
      {"the one before was better", kAuto, kPrevious, Make(200, -0.05, 0.1), kRollBack},
      {"the one before was better, but a person decides", kManual, kPrevious, Make(200, -0.05, 0.1), kWait},
      {"the one before was worse", kAuto, kPrevious, Make(200, 0.05, 0.1), kConfirm},
      {"as good as before", kAuto, kPrevious, Make(20'000, 0, 0.1), kConfirm},
  };
  for (const auto& c : kCases) EXPECT_EQ(NextStep(c.policy, c.shadow, c.losses), c.step) << c.what;
}

TEST(ProfilePolicyTest, EqualProfilesAreRarelyTakenForDifferentOnes) {
  int steps = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> error(0, 0.1);
    PairedLosses losses;
    for (int i = 0; i < 2000; ++i) losses.Add(error(random), error(random));
    steps += NextStep(ProfilePolicy::kAuto, ShadowRole::kNew, losses) == ProfileStep::kPromote ? 1 : 0;
  }
  EXPECT_LE(steps, 6);
}

TEST(PairedLossesTest, AreMeanAndErrorOfTheDifference) {
  PairedLosses losses;
  EXPECT_TRUE(std::isinf(losses.StandardError()));
  for (const double shadow : {0.1, 0.2, 0.3, 9.0}) losses.Add(-0.1, shadow);
  const double capped = std::log(10.0);
  EXPECT_NEAR(losses.mean, (0.1 + 0.2 + 0.3 + capped) / 4 - 0.1, 1e-12);
  EXPECT_GT(losses.StandardError(), 0);
}

}  // namespace
}  // namespace gpueta
