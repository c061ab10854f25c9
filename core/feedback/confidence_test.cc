#include "core/feedback/confidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace gpueta {
namespace {

// Errors are exponential with mean 0.1, half of them below 0: MAPE 0.1, bias 0,
// APE quantiles −0.1·ln(1 − q). Estimates below 0.9 have a p90 that is missed.
constexpr double kMean = 0.1;
double QuantileOfApe(double q) { return -kMean * std::log(1 - q); }

std::vector<PredictedAndObserved> Draw(std::mt19937_64& random, int shapes, int repetitions) {
  std::exponential_distribution<double> size(1 / kMean);
  std::bernoulli_distribution above(0.5);
  std::vector<PredictedAndObserved> pairs;
  for (int shape = 0; shape < shapes; ++shape) {
    const double p50 = 1 + (above(random) ? 1 : -1) * std::min(size(random), 0.99);
    for (int i = 0; i < repetitions; ++i) {
      pairs.push_back({{p50, p50 < 0.9 ? 0.0 : 2.0, 2}, 1, static_cast<std::uint32_t>(shape)});
    }
  }
  return pairs;
}

bool Holds(const std::optional<Range>& range, double truth) {
  return range.has_value() && range->low <= truth && truth <= range->high;
}
double Width(const std::optional<Range>& range) { return range.value().high - range.value().low; }

TEST(IntervalsOfTest, HoldTheTruthInAboutNineteenCasesOfTwenty) {
  // p50 < 0.9 has a chance of ½·e^−1.
  const double below_p90 = 1 - 0.5 * std::exp(-1.0);
  constexpr int kTrials = 300;
  for (const int repetitions : {1, 4}) {
    std::mt19937_64 random(7);
    int mape = 0, median = 0, p90 = 0, p99 = 0, bias = 0, below = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const ErrorIntervals intervals = IntervalsOf(Draw(random, 400, repetitions), 1);
      mape += Holds(intervals.mape, kMean);
      median += Holds(intervals.median, QuantileOfApe(0.5));
      p90 += Holds(intervals.ape_p90, QuantileOfApe(0.9));
      p99 += Holds(intervals.ape_p99, QuantileOfApe(0.99));
      bias += Holds(intervals.bias, 0);
      below += Holds(intervals.below_p90, below_p90);
    }
    for (const int held : {mape, median, p90, bias, below}) {
      EXPECT_GT(held, 0.91 * kTrials);
      EXPECT_LT(held, 0.99 * kTrials);
    }
    // So far out there are four values above the quantile: less exact.
    EXPECT_GT(p99, 0.88 * kTrials);
  }
}

TEST(IntervalsOfTest, OfFewShapesHoldTheTruthNearlyAsOften) {
  constexpr int kTrials = 300;
  std::mt19937_64 random(7);
  int mape = 0, median = 0, bias = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const ErrorIntervals intervals = IntervalsOf(Draw(random, static_cast<int>(kFewestShapes), 2), 1);
    mape += Holds(intervals.mape, kMean);
    median += Holds(intervals.median, QuantileOfApe(0.5));
    bias += Holds(intervals.bias, 0);
  }
  // A skewed mean of ten is the hardest.
  for (const int held : {mape, median, bias}) EXPECT_GT(held, 0.85 * kTrials);
}

TEST(IntervalsOfTest, OneRowHasNoInterval) {
  std::mt19937_64 random(1);
  const ErrorIntervals intervals = IntervalsOf(Draw(random, 1, 1), 1);
  EXPECT_EQ(intervals.shapes, 1);
  EXPECT_FALSE(intervals.mape.has_value());
  EXPECT_FALSE(intervals.below_p90.has_value());
  EXPECT_EQ(IntervalsOf({}, 1).shapes, 0);
}

TEST(IntervalsOfTest, ManyRowsOfOneShapeHaveNoInterval) {
  std::mt19937_64 random(1);
  EXPECT_FALSE(IntervalsOf(Draw(random, 1, 1000), 1).mape.has_value());
}

TEST(IntervalsOfTest, AQuantileBeyondWhatTheShapesCanBoundHasNone) {
  std::mt19937_64 random(1);
  const auto at = [&](int shapes) { return IntervalsOf(Draw(random, shapes, 1), 1); };
  EXPECT_TRUE(at(35).mape.has_value());
  EXPECT_FALSE(at(35).ape_p90.has_value());
  EXPECT_TRUE(at(36).ape_p90.has_value());
  EXPECT_FALSE(at(367).ape_p99.has_value());
  EXPECT_TRUE(at(368).ape_p99.has_value());
}

TEST(IntervalsOfTest, RepetitionsOfAShapeWidenThem) {
  std::mt19937_64 random(3);
  std::vector<PredictedAndObserved> pairs = Draw(random, 400, 9);
  const ErrorIntervals by_shape = IntervalsOf(pairs, 1);
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i].shape = static_cast<std::uint32_t>(i);
  const ErrorIntervals by_row = IntervalsOf(pairs, 1);
  // Nine equal rows are one: three times the width.
  EXPECT_NEAR(Width(by_shape.mape) / Width(by_row.mape), 3, 0.5);
  EXPECT_NEAR(Width(by_shape.below_p90) / Width(by_row.below_p90), 3, 0.5);
  EXPECT_GT(Width(by_shape.ape_p90), 1.5 * Width(by_row.ape_p90));
}

TEST(IntervalsOfTest, AShareOfAllIsNotCertain) {
  std::mt19937_64 random(1);
  const std::optional<Range> range = IntervalsOf(Draw(random, 14, 50), 1).below_p99;
  ASSERT_TRUE(range.has_value());
  EXPECT_NEAR(range->low, 14 / (14 + 1.96 * 1.96), 1e-3);  // Wilson's for 14 of 14
  EXPECT_EQ(range->high, 1);
}

TEST(IntervalsOfTest, TheSeedSettlesThem) {
  std::mt19937_64 random(1);
  const std::vector<PredictedAndObserved> pairs = Draw(random, 50, 2);
  EXPECT_EQ(IntervalsOf(pairs, 1).mape->low, IntervalsOf(pairs, 1).mape->low);
  EXPECT_NE(IntervalsOf(pairs, 1).mape->low, IntervalsOf(pairs, 2).mape->low);
}

std::vector<PredictedAndObserved> Scaled(std::vector<PredictedAndObserved> pairs, double factor) {
  for (PredictedAndObserved& pair : pairs) pair.predicted_us.p50 = 1 + factor * (pair.predicted_us.p50 - 1);
  return pairs;
}

TEST(ComparePairedTest, SmallDifferencesOfTheSameRowsShow) {
  std::mt19937_64 random(1);
  const std::vector<PredictedAndObserved> pairs = Draw(random, 100, 3);
  const PairedErrors paired = ComparePaired(pairs, Scaled(pairs, 1.1), 1);
  // Each alone is known to a fifth of its value only.
  EXPECT_NEAR(paired.difference, 0.1 * Summarise(pairs).mape, 1e-12);
  EXPECT_TRUE(ShowsDifference(paired));
  EXPECT_EQ(paired.first_nearer, 300);
  EXPECT_EQ(paired.second_nearer, 0);
}

TEST(ComparePairedTest, ChanceIsNoDifference) {
  std::mt19937_64 random(5);
  int shown = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    shown += ShowsDifference(ComparePaired(Draw(random, 100, 2), Draw(random, 100, 2), 1)) ? 1 : 0;
  }
  EXPECT_LT(shown, 0.1 * kTrials);
}

TEST(ComparePairedTest, TooFewShapesShowNothing) {
  std::mt19937_64 random(1);
  const std::vector<PredictedAndObserved> pairs = Draw(random, 9, 3);
  const PairedErrors paired = ComparePaired(pairs, Scaled(pairs, 2), 1);
  EXPECT_GT(paired.difference, 0);
  EXPECT_FALSE(ShowsDifference(paired));
  EXPECT_EQ(ComparePaired({}, {}, 1).difference, 0);
}

}  // namespace
}  // namespace gpueta
