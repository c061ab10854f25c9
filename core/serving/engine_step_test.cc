#include "core/serving/engine_step.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/base/errors.h"

namespace gpueta {
namespace {

TEST(StepOfTest, DealsOutWhatWasCounted) {
  const auto step = StepOf({.prefill_tokens = 1000,
                            .prefill_sequences = 3,
                            .cached_tokens = 64,
                            .decode_sequences = 7,
                            .context_tokens = 7 * 500 + 3},
                           2);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->prefill, (std::vector<PrefillChunk>{{334, 22}, {333, 21}, {333, 21}}));
  EXPECT_EQ(step->decode_context, (std::vector<std::int64_t>{501, 501, 501, 500, 500, 500, 500}));
  EXPECT_EQ(step->tokens(), 1000 + 7 * 3);
  EXPECT_EQ(std::accumulate(step->decode_context.begin(), step->decode_context.end(), std::int64_t{0}), 3503);
}

TEST(StepOfTest, WithoutPromptsThereAreNoChunks) {
  const auto step = StepOf({.decode_sequences = 2, .context_tokens = 9});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(step->prefill.empty());
  EXPECT_EQ(step->decode_context.size(), 2U);
}

TEST(StepOfTest, CountsThatContradictEachOtherNameTheField) {
  const auto field = [](const StepCounts& counts) { return FieldOf(StepOf(counts).status()); };
  EXPECT_EQ(field({.prefill_tokens = -1}), "prefill_tokens");
  EXPECT_EQ(field({.prefill_tokens = 4, .prefill_sequences = 5}), "prefill_sequences");
  EXPECT_EQ(field({.prefill_tokens = 4, .prefill_sequences = 0}), "prefill_sequences");
  EXPECT_EQ(field({.cached_tokens = 1, .decode_sequences = 1, .context_tokens = 1}), "cached_tokens");
  EXPECT_EQ(field({.decode_sequences = 1 << 20, .context_tokens = 1 << 20}), "decode_sequences");
  EXPECT_EQ(field({.decode_sequences = 5, .context_tokens = 4}), "context_tokens");
  EXPECT_EQ(field({.prefill_tokens = 1, .context_tokens = 4}), "context_tokens");
}

}  // namespace
}  // namespace gpueta
