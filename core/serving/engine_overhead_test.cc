#include "core/serving/engine_overhead.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpueta {
namespace {

std::vector<StepRecord> Records(double step_us, double token_us, int count = 40) {
  std::vector<StepRecord> records;
  for (int i = 0; i < count; ++i) {
    const std::int64_t tokens = 1 + i * 37;
    const double kernels_us = 500 + static_cast<double>(tokens) * 3;
    records.push_back({tokens, kernels_us, kernels_us + step_us + token_us * static_cast<double>(tokens)});
  }
  return records;
}

TEST(EngineOverheadTest, FindsWhatWasAdded) {
  const auto fitted = FitEngineOverhead(Records(320, 0.7));
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_NEAR(fitted->step_us, 320, 1e-6);
  EXPECT_NEAR(fitted->token_us, 0.7, 1e-9);
}

TEST(EngineOverheadTest, AStalledIterationDoesNotMoveIt) {
  std::vector<StepRecord> records = Records(320, 0.7);
  records[5].observed_us *= 40;
  records[20].observed_us *= 15;
  const auto fitted = FitEngineOverhead(records);
  EXPECT_NEAR(fitted->step_us, 320, 1);
  EXPECT_NEAR(fitted->token_us, 0.7, 0.01);
}

TEST(EngineOverheadTest, NeverBelowNothing) {
  const auto fitted = FitEngineOverhead(Records(-200, -0.1));
  EXPECT_EQ(fitted->step_us, 0);
  EXPECT_EQ(fitted->token_us, 0);
  EXPECT_GT(FitEngineOverhead(Records(400, -0.05))->step_us, 0);
}

TEST(EngineOverheadTest, EqualStepsTellNoShareOfTokens) {
  const std::vector<StepRecord> records(5, {64, 1000, 1300});
  const auto fitted = FitEngineOverhead(records);
  EXPECT_NEAR(fitted->Of(64), 300, 1e-6);
}

TEST(EngineOverheadTest, SaysWhatIsWrongWithRecords) {
  EXPECT_EQ(FitEngineOverhead({}).status().code(), absl::StatusCode::kInvalidArgument);
  std::vector<StepRecord> records = Records(1, 1);
  records[3].observed_us = 0;
  EXPECT_NE(FitEngineOverhead(records).status().message().find("records[3]"), absl::string_view::npos);
}

}  // namespace
}  // namespace gpueta
