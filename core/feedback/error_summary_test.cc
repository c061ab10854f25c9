#include "core/feedback/error_summary.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

TEST(SummariseTest, NoPairsGiveZeros) { EXPECT_EQ(Summarise({}).n, 0); }

TEST(SummariseTest, ErrorsAreRelativeToTheObservation) {
  const std::vector<PredictedAndObserved> pairs = {
      {{110, 130, 150}, 100}, {{90, 95, 120}, 100}, {{100, 100, 100}, 100}};
  const ErrorSummary summary = Summarise(pairs);
  EXPECT_EQ(summary.n, 3);
  EXPECT_NEAR(summary.mape, 0.2 / 3, 1e-12);
  EXPECT_NEAR(summary.bias, 0, 1e-12);
  EXPECT_NEAR(summary.median, 0.1, 1e-12);
  EXPECT_NEAR(summary.below_p50, 2.0 / 3, 1e-12);
  EXPECT_NEAR(summary.below_p90, 2.0 / 3, 1e-12);
  EXPECT_NEAR(summary.below_p99, 1, 1e-12);
}

TEST(SummariseTest, QuantilesInterpolateBetweenRanks) {
  std::vector<PredictedAndObserved> pairs;
  for (int i = 0; i <= 10; ++i) pairs.push_back({{100.0 + i, 200, 300}, 100});
  const ErrorSummary summary = Summarise(pairs);
  EXPECT_NEAR(summary.ape_p90, 0.09, 1e-12);
  EXPECT_NEAR(summary.ape_p99, 0.099, 1e-12);
}

TEST(RankCorrelationTest, TellsOrderAloneAndSharesRanksOfTies) {
  const auto correlation = [](const std::vector<std::pair<double, double>>& values) {
    std::vector<PredictedAndObserved> pairs;
    for (const auto& [predicted, observed] : values) pairs.push_back({{predicted, predicted, predicted}, observed, 0});
    return RankCorrelation(pairs);
  };
  EXPECT_DOUBLE_EQ(correlation({{1, 10}, {2, 400}, {30, 500}}).value(), 1);
  EXPECT_DOUBLE_EQ(correlation({{3, 10}, {2, 400}, {1, 500}}).value(), -1);
  // scipy.stats.spearmanr([1, 2, 2, 4], [1, 3, 2, 4])
  EXPECT_NEAR(correlation({{1, 1}, {2, 3}, {2, 2}, {4, 4}}).value(), 0.9486832980505138, 1e-12);
  EXPECT_FALSE(correlation({{1, 1}, {1, 2}}).has_value());
  EXPECT_FALSE(correlation({{1, 1}}).has_value());
}

}  // namespace
}  // namespace gpueta
