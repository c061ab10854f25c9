#include "core/serving/max_batch.h"

#include <gtest/gtest.h>

#include "core/serving/testing_models.h"

namespace gpueta {
namespace {

using testing::H100;
using testing::SmallLlama;

class MaxBatchTest : public ::testing::Test {
 protected:
  double Step(std::int64_t sequences, std::int64_t context) const {
    const auto c = static_cast<double>(context);
    return table_.Latency({{}, sequences, c, c}).Quantile(0.9);
  }

  const StepModel model_ = StepModel::Compile(SmallLlama(), "m").value();
  const StepTable table_ =
      StepTable::Build(model_, *H100(), {.tokens = 2048, .sequences = 512, .context = 32768}).value();
  const CacheRoom room_ = RoomForCache(model_, 80, 2048).value();
};

TEST_F(MaxBatchTest, TheCacheTakesWhatWeightsAndActivationsLeave) {
  EXPECT_NEAR(room_.cache_bytes,
              0.9 * 80 * 1024 * 1024 * 1024 - static_cast<double>(model_.weight_bytes()) - room_.activation_bytes, 1);
  EXPECT_EQ(room_.blocks, static_cast<std::int64_t>(room_.cache_bytes / 4096) / 16);
  EXPECT_EQ(RoomForCache(model_, 0.01, 2048)->blocks, 0);
  EXPECT_FALSE(RoomForCache(model_, 0, 2048).ok());
}

TEST_F(MaxBatchTest, OneMoreSequenceWouldMissTheLimit) {
  const LatencyLimit tpot{.us = Step(200, 4096)};
  const LargestBatch largest = MaxDecodeBatch(model_, table_, room_, 4096, tpot);
  EXPECT_GE(largest.sequences, 200);
  EXPECT_LE(Step(largest.sequences, 4096), tpot.us);
  EXPECT_GT(Step(largest.sequences + 1, 4096), tpot.us);
  EXPECT_EQ(largest.binds, "tpot");
}

TEST_F(MaxBatchTest, MemoryBindsWhereTheLimitDoesNot) {
  CacheRoom small = room_;
  small.cache_bytes = 10 * 4096.0 * 32768 + 1;
  const LargestBatch largest = MaxDecodeBatch(model_, table_, small, 32768, std::nullopt);
  EXPECT_EQ(largest.sequences, 10);
  EXPECT_EQ(largest.binds, "memory");
}

TEST_F(MaxBatchTest, AnImpossibleLimitLeavesNoSequence) {
  const LargestBatch largest = MaxDecodeBatch(model_, table_, room_, 4096, LatencyLimit{.us = 1});
  EXPECT_EQ(largest.sequences, 0);
  EXPECT_EQ(largest.binds, "tpot");
}

TEST_F(MaxBatchTest, ALongerContextLeavesFewerSequences) {
  std::int64_t last = 1000;
  for (const std::int64_t context : {512, 2048, 8192, 32768}) {
    const LargestBatch largest = MaxDecodeBatch(model_, table_, room_, context, LatencyLimit{.us = 2000});
    EXPECT_LE(largest.sequences, last) << context;
    last = largest.sequences;
  }
}

TEST_F(MaxBatchTest, TheChunkIsAsLargeAsTheStepAllows) {
  const LatencyLimit limit{.us = 1.3 * Step(32, 1024)};
  const std::int64_t tokens = MaxPrefillChunk(table_, 32, 1024, limit);
  ASSERT_GT(tokens, 0);
  const PrefillChunk more{tokens + 1, 0};
  if (tokens + 1 + 32 <= table_.limits().tokens) {
    EXPECT_GT(table_.Latency({{&more, 1}, 32, 1024, 1024}).Quantile(0.9), limit.us);
  }
  EXPECT_EQ(MaxPrefillChunk(table_, 32, 1024, {.us = 1}), 0);
}

TEST_F(MaxBatchTest, SteadyStateBalancesPromptsAndOutputs) {
  const auto state = SteadyStateOf(table_, 32, 512, 128, 2048, {});
  ASSERT_TRUE(state.ok());
  // As many outputs end as Little's law says.
  EXPECT_NEAR(state->requests_per_s * 128 * state->tpot_us / 1e6, 32, 1e-6);
  // Short outputs: a quarter of the sequences brings a prompt in each step.
  const auto prompts = SteadyStateOf(table_, 32, 512, 4, 2048, {});
  EXPECT_EQ(prompts->requests_per_s, 0);
}

TEST_F(MaxBatchTest, StepsWithDraftsAreWorthTheirTokens) {
  const StepTable drafting =
      StepTable::Build(model_, *H100(), {.tokens = 2048, .sequences = 64, .context = 8192, .speculative_tokens = 1})
          .value();
  const auto none = SteadyStateOf(drafting, 32, 512, 128, 2048, {}, {1, 0});
  const auto all = SteadyStateOf(drafting, 32, 512, 128, 2048, {}, {1, 1});
  ASSERT_TRUE(none.ok() && all.ok());
  EXPECT_NEAR(all->requests_per_s * 128 * all->tpot_us / 1e6, 32, 1e-6);
  EXPECT_LT(all->tpot_us, none->tpot_us);
  EXPECT_GT(all->requests_per_s, 1.5 * none->requests_per_s);
  // A limit that plain steps of one sequence just meet lets those with two tokens be twice as long.
  const LatencyLimit tpot{.us = drafting.Latency({{}, 1, 1024, 1024}).Quantile(0.9)};
  EXPECT_GT(MaxDecodeBatch(model_, drafting, room_, 1024, tpot, {1, 1}).sequences,
            MaxDecodeBatch(model_, drafting, room_, 1024, tpot, {1, 0}).sequences);
}

TEST_F(MaxBatchTest, TheRateGrowsWithTheLimitAndStaysWithinIt) {
  double last = 0;
  for (const double scale : {1.2, 2.0, 4.0}) {
    const LatencyLimits limits = {.tpot = LatencyLimit{.us = scale * Step(1, 1024)}};
    const auto within = SteadyStatesWithin(model_, table_, room_, 512, 128, 2048, limits);
    ASSERT_TRUE(within.ok()) << within.status();
    const SteadyState state = MaxRequestRate(*within);
    EXPECT_GE(state.requests_per_s, last) << scale;
    EXPECT_LE(state.tpot_us, limits.tpot->us);
    last = state.requests_per_s;
  }
  EXPECT_GT(last, 0);
}

}  // namespace
}  // namespace gpueta
