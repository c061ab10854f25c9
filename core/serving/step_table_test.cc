#include "core/serving/step_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/serving/testing_models.h"

namespace gpueta {
namespace {

using testing::H100;
using testing::SmallLlama;

constexpr StepTableLimits kLimits = {.tokens = 2048, .sequences = 128, .context = 16384};

class StepTableTest : public ::testing::Test {
 protected:
  const StepModel model_ = StepModel::Compile(SmallLlama(), "m").value();
  const StepTable table_ = StepTable::Build(model_, *H100(), kLimits).value();
};

TEST_F(StepTableTest, AgreesWithTheModelWithinWhatItSays) {
  EXPECT_LT(table_.checked_error(), 0.02);
  for (const std::int64_t sequences : {1, 7, 33, 128}) {
    for (const std::int64_t context : {1, 100, 1500, 16000}) {
      EngineStep step{.prefill = {{777, 1234}},
                      .decode_context = std::vector<std::int64_t>(static_cast<std::size_t>(sequences), context)};
      const auto exact = model_.Estimate(step, *H100());
      const auto c = static_cast<double>(context);
      const StepLatency looked_up = table_.Latency({step.prefill, sequences, c, c});
      EXPECT_NEAR(looked_up.p50_us / exact->latency_us.p50, 1, 0.02) << sequences << " at " << context;
      EXPECT_NEAR(looked_up.Quantile(0.9) / exact->latency_us.p90, 1, 0.025) << sequences << " at " << context;
    }
  }
}

TEST_F(StepTableTest, ColumnsAreTheSameToTheBit) {
  const StepTable table = table_.WithOverhead({.step_us = 50, .token_us = 0.3});
  std::vector<std::int32_t> sequences;
  std::vector<float> mean, longest;
  for (int i = 0; i < 1000; ++i) {
    sequences.push_back(i % 11 == 0 ? 0 : 1 + i * 37 % 200);  // up to 128 are in the table
    mean.push_back(static_cast<float>(1 + i * 7919 % 40'000) + 0.3F * static_cast<float>(i % 4));
    if (i % 13 == 0) mean.back() = 0.3F * static_cast<float>(i % 4 - 1);  // no context yet
    longest.push_back(mean.back() * (i % 3 == 0 ? 1.0F : static_cast<float>(1 + i % 50)));
  }
  for (const bool alike : {false, true}) {
    std::vector<float> p50(1000), sigma(1000);
    table.DecodeLatencies(sequences, mean, alike ? std::span<const float>() : longest, p50, sigma);
    for (std::size_t i = 0; i < 1000; ++i) {
      const double last = static_cast<double>(alike ? mean[i] : longest[i]);
      const StepLatency one = table.Latency({{}, sequences[i], static_cast<double>(mean[i]), last});
      ASSERT_EQ(static_cast<double>(p50[i]), one.p50_us) << i;
      ASSERT_EQ(static_cast<double>(sigma[i]), one.sigma) << i;
      ASSERT_EQ(one.p50_us > 50, sequences[i] > 0) << i;
    }
  }
}

TEST(CostPlaneTest, IsBilinearInLogarithms) {
  const std::vector<std::int64_t> rows = {1, 2, 5, 300};
  const std::vector<std::int64_t> cols = {1, 2, 3, 1000, 1001, 1004, 100'000, 100'001};
  const auto us = [](std::size_t i, std::size_t j) { return 3 * std::pow(1.7, i) + 5 * std::pow(1.4, j); };
  std::vector<StepCost> costs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < cols.size(); ++j) {
      costs.push_back({static_cast<float>(us(i, j)), static_cast<float>(us(i, j) / 7)});
    }
  }
  const CostPlane plane(rows, cols, costs);
  const auto place = [](const std::vector<std::int64_t>& knots, double x) {
    std::size_t at = 0;
    while (at + 2 < knots.size() && static_cast<double>(knots[at + 1]) <= x) ++at;
    const auto left = static_cast<double>(knots[at]);
    return std::pair(at, std::log(x / left) / std::log(static_cast<double>(knots[at + 1]) / left));
  };
  for (const std::int64_t row : {1, 2, 3, 5, 299, 300, 4000}) {
    for (const float col : {1.0F, 1.5F, 2.0F, 3.0F, 7.25F, 999.5F, 1000.0F, 1000.75F, 1001.0F, 1002.5F, 1004.0F,
                            65'000.0F, 100'000.0F, 100'000.5F, 100'001.0F, 100'003.0F}) {
      const auto [i, u] = place(rows, static_cast<double>(row));
      const auto [j, v] = place(cols, static_cast<double>(col));
      const auto across = [&, j = j, v = v](std::size_t at) {
        return (1 - v) * std::log(us(at, j)) + v * std::log(us(at, j + 1));
      };
      const double expected = std::exp((1 - u) * across(i) + u * across(i + 1));
      const StepCost cost = plane.At(plane.RowAt(row), col);
      EXPECT_NEAR(static_cast<double>(cost.us) / expected, 1, 2e-5) << row << ", " << col;
      EXPECT_NEAR(static_cast<double>(cost.spread_us) * 7 / expected, 1, 2e-5) << row << ", " << col;
    }
  }
}

TEST(CostPlaneTest, OneKnotIsFlatAndNoneIsFree) {
  const std::int64_t one = 1;
  const StepCost cost{8, 2};
  const CostPlane flat({&one, 1}, {&one, 1}, {&cost, 1});
  EXPECT_NEAR(static_cast<double>(flat.At(flat.RowAt(900), 12'345).us), 8, 1e-4);
  const CostPlane none;
  EXPECT_LT(none.At(none.RowAt(3), 100).us, 1e-30F);
}

TEST_F(StepTableTest, NothingToDoTakesNoTime) { EXPECT_EQ(table_.Latency({}).p50_us, 0); }

TEST_F(StepTableTest, GrowsBeyondItsLimits) {
  const double c = 64000;
  EXPECT_GT(table_.Latency({{}, 128, c, c}).p50_us, table_.Latency({{}, 128, 16000, 16000}).p50_us * 1.5);
  const PrefillChunk inside{2048, 0};
  const PrefillChunk beyond{4096, 0};
  EXPECT_GT(table_.Latency({.prefill = {&beyond, 1}}).p50_us, 1.6 * table_.Latency({.prefill = {&inside, 1}}).p50_us);
}

TEST_F(StepTableTest, OverheadIsInEveryStep) {
  const auto with = StepTable::Build(model_, *H100(), kLimits, {.step_us = 100, .token_us = 2});
  EXPECT_NEAR(with->Latency({{}, 10, 500, 500}).p50_us - table_.Latency({{}, 10, 500, 500}).p50_us, 120, 0.1);
}

TEST(NormalQuantileTest, IsTheInverseOfTheNormalDistribution) {
  EXPECT_NEAR(NormalQuantile(0.5), 0, 1e-9);
  EXPECT_NEAR(NormalQuantile(0.9), 1.2815515655, 1e-8);
  EXPECT_NEAR(NormalQuantile(0.99), 2.3263478740, 1e-8);
  EXPECT_NEAR(NormalQuantile(0.001), -3.0902323062, 1e-8);
}

TEST(StepTableLimitsTest, AreBounded) {
  const StepModel model = StepModel::Compile(SmallLlama(), "m").value();
  EXPECT_FALSE(StepTable::Build(model, *H100(), {.tokens = 0}).ok());
  EXPECT_FALSE(StepTable::Build(model, *H100(), {.tokens = std::int64_t{1} << 40}).ok());
}

}  // namespace
}  // namespace gpueta
