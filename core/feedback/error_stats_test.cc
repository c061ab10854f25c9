#include "core/feedback/error_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace gpueta {
namespace {

std::vector<PredictedAndObserved> Draw(int count, double bias, double spread, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> error(bias, spread);
  std::vector<PredictedAndObserved> pairs;
  for (int i = 0; i < count; ++i) {
    const double p50 = 10 + i % 100;
    pairs.push_back({{p50, p50 * 1.15, p50 * 1.3}, p50 * std::exp(-error(random))});
  }
  return pairs;
}

TEST(ErrorStatsTest, SaysWhatTheRowsSay) {
  const auto pairs = Draw(5000, 0.04, 0.1, 5);
  const ErrorSummary exact = Summarise(pairs);
  ErrorStats stats;
  for (const auto& pair : pairs) stats.Add(pair);
  const ErrorSummary summary = SummaryOf(stats);
  EXPECT_EQ(summary.n, exact.n);
  EXPECT_NEAR(summary.mape, exact.mape, 0.02 * exact.mape);
  EXPECT_NEAR(summary.median, exact.median, 0.04 * exact.median);
  EXPECT_NEAR(summary.ape_p90, exact.ape_p90, 0.04 * exact.ape_p90);
  EXPECT_NEAR(summary.ape_p99, exact.ape_p99, 0.05 * exact.ape_p99);
  EXPECT_NEAR(summary.bias, exact.bias, 0.002);
  EXPECT_EQ(summary.below_p50, exact.below_p50);
  EXPECT_EQ(summary.below_p90, exact.below_p90);
  EXPECT_EQ(summary.below_p99, exact.below_p99);
  EXPECT_NEAR(summary.p90_width, exact.p90_width, 1e-12);
  EXPECT_EQ(SummaryOf({}).n, 0);
}

TEST(ErrorStatsTest, OneInAHundredOffByAFactorOfFiftyDoesNotPoisonTheMean) {
  auto pairs = Draw(2000, 0, 0.1, 6);
  const double clean = Summarise(pairs).mape;
  for (std::size_t i = 0; i < pairs.size(); i += 100) pairs[i].observed_us /= 50;
  ErrorStats stats;
  RecentErrors recent;
  for (const auto& pair : pairs) {
    stats.Add(pair);
    recent.Add(pair);
  }
  EXPECT_GT(Summarise(pairs).mape, 5 * clean);
  EXPECT_LT(SummaryOf(stats).mape, 1.15 * clean);
  EXPECT_LT(recent.Mape(), 1.3 * clean);
  EXPECT_NEAR(SummaryOf(stats).bias, 0, 0.02);
}

TEST(ErrorStatsTest, MergedIsAsIfAllHadBeenAddedToOne) {
  const auto pairs = Draw(500, 0.1, 0.2, 7);
  ErrorStats all, first, second;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    all.Add(pairs[i]);
    (i < 100 ? first : second).Add(pairs[i]);
  }
  first.Merge(second);
  EXPECT_EQ(SummaryOf(first).mape, SummaryOf(all).mape);
  EXPECT_EQ(SummaryOf(first).below_p90, SummaryOf(all).below_p90);
}

TEST(RecentErrorsTest, FollowAChangeAndForgetWhatWasBefore) {
  RecentErrors recent;
  EXPECT_EQ(recent.Mape(), 0);
  for (const auto& pair : Draw(1000, 0, 0.05, 8)) recent.Add(pair);
  EXPECT_NEAR(recent.LnBias(), 0, 0.01);
  EXPECT_GT(recent.BelowP90(), 0.95);
  for (const auto& pair : Draw(1000, -0.3, 0.05, 9)) recent.Add(pair);
  EXPECT_NEAR(recent.LnBias(), -0.3, 0.02);
  EXPECT_LT(recent.BelowP90(), 0.05);
}

}  // namespace
}  // namespace gpueta
