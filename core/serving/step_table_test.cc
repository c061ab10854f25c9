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
