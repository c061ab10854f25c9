#include "core/feedback/correction_learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace gpueta {
namespace {

double Learn(CorrectionLearner& learner, double ln_ratio, double deviation, int count, std::uint64_t seed = 1,
             int size_class = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, deviation);
  for (int i = 0; i < count; ++i) learner.Add(size_class, ln_ratio + noise(random));
  return learner.Factors().factor[static_cast<std::size_t>(size_class)];
}

TEST(CorrectionLearnerTest, FindsAPlantedFactorWithinThreePercentAfter200Observations) {
  for (const double planted : {1.3, 0.8}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CorrectionLearner learner;
      EXPECT_NEAR(Learn(learner, std::log(planted), 0.1, 200, seed) / planted, 1, 0.03);
      EXPECT_TRUE(learner.helps());
    }
  }
}

TEST(CorrectionLearnerTest, HasNoFactorBeforeTenObservationsAndLittleAtFirst) {
  CorrectionLearner learner;
  EXPECT_EQ(Learn(learner, std::log(1.3), 0.05, 9), 1);
  const double early = Learn(learner, std::log(1.3), 0.05, 6);
  EXPECT_GT(early, 1.05);
  EXPECT_LT(early, 1.27);
}

TEST(CorrectionLearnerTest, StaysWithinTheBounds) {
  CorrectionLearner fast, slow;
  EXPECT_EQ(Learn(fast, -2, 0.2, 1000), kSmallestCorrection);
  EXPECT_EQ(Learn(slow, 5, 0.2, 1000), kLargestCorrection);
  EXPECT_GT(fast.observations_at_bound(), 500);
  EXPECT_GT(slow.observations_at_bound(), 500);
}

TEST(CorrectionLearnerTest, OutliersMoveItLittle) {
  CorrectionLearner learner;
  std::mt19937_64 random(2);
  std::normal_distribution<double> noise(0, 0.05);
  for (int i = 0; i < 600; ++i) learner.Add(1, i % 50 == 49 ? 3.0 : std::log(1.2) + noise(random));
  EXPECT_NEAR(learner.Factors().factor[1], 1.2, 0.03);
}

TEST(CorrectionLearnerTest, LearnsClassesApartAndLendsToThoseWithoutData) {
  CorrectionLearner learner;
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 0.05);
  for (int i = 0; i < 600; ++i) {
    learner.Add(0, std::log(1.6) + noise(random));
    learner.Add(1, std::log(1.1) + noise(random));
  }
  const CorrectionCurve curve = learner.Factors();
  EXPECT_NEAR(curve.factor[0], 1.6, 0.04);
  EXPECT_NEAR(curve.factor[1], 1.1, 0.03);
  EXPECT_NEAR(curve.factor[2], std::sqrt(1.6 * 1.1), 0.05);
}

// Whatever the stream: over its whole length the corrected loss is not worse
// than the uncorrected one by more than half a point.
TEST(CorrectionLearnerTest, NeverMakesAHeldBackStreamWorse) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal(0, 1);
  const auto worse = [](auto&& draw) {
    CorrectionLearner learner;
    double difference = 0;
    constexpr int kCount = 3000;
    for (int i = 0; i < kCount; ++i) {
      const auto [size_class, x] = draw(i);
      const double ln = std::log(static_cast<double>(learner.Factors().factor[static_cast<std::size_t>(size_class)]));
      difference += std::abs(x - ln) - std::abs(x);
      learner.Add(size_class, x);
    }
    return difference / kCount;
  };
  EXPECT_LT(worse([&](int i) { return std::pair(i % 3, 0.2 * normal(random)); }), 0.005);
  EXPECT_LT(worse([&](int i) { return std::pair(i % 3, 0.02 * normal(random)); }), 0.005);
  // The bias changes its sign every 100.
  EXPECT_LT(worse([&](int i) { return std::pair(1, (i / 100 % 2 ? 0.2 : -0.2) + 0.1 * normal(random)); }), 0.005);
  // Shapes of opposite bias in one class.
  EXPECT_LT(worse([&](int i) { return std::pair(1, (i % 2 ? 0.3 : -0.3) + 0.05 * normal(random)); }), 0.005);
  // Skewed: the mean is not the median.
  EXPECT_LT(worse([&](int i) { return std::pair(1, i % 10 ? 0.02 * normal(random) : 0.5 + 0.1 * normal(random)); }),
            0.005);
}

TEST(CorrectionLearnerTest, AfterASuddenChangeLearnsAnewWithinTens) {
  CorrectionLearner learner;
  Learn(learner, 0, 0.05, 1000, 5);
  learner.Forget(std::log(1.45));  // what the detector took it for
  EXPECT_EQ(learner.Factors(), CorrectionCurve());
  EXPECT_NEAR(Learn(learner, std::log(1.5), 0.05, 80, 6), 1.5, 0.05);
}

TEST(CorrectionLearnerTest, GoesOnFromItsMemory) {
  CorrectionLearner whole, restored;
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0.2, 0.1);
  for (int i = 0; i < 300; ++i) {
    const double x = noise(random);
    restored = CorrectionLearner::Restore(restored.memory());
    whole.Add(i % 3, x);
    restored.Add(i % 3, x);
    EXPECT_EQ(whole.Factors(), restored.Factors());
  }
}

}  // namespace
}  // namespace gpueta
