#include "core/serving/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr EngineLimits kLimits = {.token_budget = 100, .max_sequences = 4, .kv_blocks = 1000, .block_tokens = 16};

struct Ends {
  std::map<std::size_t, std::int64_t> first;  // step of the first token, by id
  std::map<std::size_t, std::int64_t> last;
  std::int64_t steps = 0;
  std::int64_t most_tokens = 0;
  std::int64_t most_blocks = 0;
};

// Until everything is done, or nothing can run.
Ends RunAll(Engine& engine, bool jump) {
  Ends ends;
  std::vector<Engine::Event> events;
  std::vector<PrefillChunk> chunks;
  while (!engine.idle()) {
    engine.Schedule();
    if (!engine.anything_scheduled()) break;
    engine.ChunksOf(chunks);
    std::int64_t tokens = engine.decoding();
    for (const PrefillChunk& chunk : chunks) tokens += chunk.new_tokens;
    ends.most_tokens = std::max(ends.most_tokens, tokens);
    ends.most_blocks = std::max(ends.most_blocks, engine.blocks_used());
    const std::int64_t steps = 1 + (jump ? engine.Repeats() : 0);
    engine.Complete(steps, events);
    ends.most_blocks = std::max(ends.most_blocks, engine.blocks_used());
    ends.steps += steps;
    for (const Engine::Event& event : events) {
      if (event.first_token) ends.first[event.id] = ends.steps;
      if (event.ended) ends.last[event.id] = ends.steps;
    }
    if (ends.steps > 100'000) break;
  }
  return ends;
}

Sequence Prompt(std::int64_t prompt, std::int64_t output, std::int64_t cached = 0) {
  return {.prompt_tokens = prompt, .cached_tokens = cached, .output_tokens = output};
}

TEST(EngineTest, APromptRunsInChunksOfTheBudget) {
  Engine engine(kLimits);
  engine.AddWaiting(Prompt(250, 5), 7);
  const Ends ends = RunAll(engine, false);
  EXPECT_EQ(ends.first.at(7), 3);
  EXPECT_EQ(ends.last.at(7), 3 + 4);
  EXPECT_EQ(ends.most_tokens, 100);
}

TEST(EngineTest, CachedTokensAreNotComputed) {
  Engine engine(kLimits);
  engine.AddWaiting(Prompt(250, 1, 200), 0);
  EXPECT_EQ(RunAll(engine, false).first.at(0), 1);
  // All of it cached: the last token still runs.
  engine.AddWaiting(Prompt(250, 1, 250), 0);
  engine.Schedule();
  std::vector<PrefillChunk> chunks;
  engine.ChunksOf(chunks);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0], (PrefillChunk{1, 249}));
}

TEST(EngineTest, DecodingSequencesRunInEveryStepAndChunksTakeTheRest) {
  Engine engine(kLimits);
  engine.AddRunning({.prompt_tokens = 10, .computed_tokens = 14, .generated_tokens = 5, .output_tokens = 50}, 0);
  engine.AddWaiting(Prompt(150, 1), 1);
  engine.Schedule();
  std::vector<PrefillChunk> chunks;
  engine.ChunksOf(chunks);
  EXPECT_EQ(engine.decoding(), 1);
  EXPECT_EQ(engine.mean_context(), 15);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0], (PrefillChunk{99, 0}));
}

TEST(EngineTest, NoMoreSequencesRunThanAllowed) {
  Engine engine(kLimits);
  for (std::size_t i = 0; i < 6; ++i) engine.AddWaiting(Prompt(10, 20), i);
  engine.Schedule();
  EXPECT_EQ(engine.running().size(), 4U);
  EXPECT_EQ(engine.waiting().size(), 2U);
  EXPECT_EQ(RunAll(engine, false).last.size(), 6U);
}

TEST(EngineTest, TheLastOneIsPreemptedWhenBlocksRunOutAndComputedAnew) {
  EngineLimits limits = kLimits;
  limits.kv_blocks = 10;  // 160 tokens
  Engine engine(limits);
  engine.AddWaiting(Prompt(64, 60), 0);
  engine.AddWaiting(Prompt(64, 60), 1);
  const Ends ends = RunAll(engine, false);
  EXPECT_EQ(ends.last.size(), 2U);
  EXPECT_LE(ends.most_blocks, 10);
  EXPECT_GT(ends.last.at(1), ends.last.at(0));
  EXPECT_EQ(engine.blocks_used(), 0);
}

TEST(EngineTest, WhatNeverFitsDoesNotRunForEver) {
  EngineLimits limits = kLimits;
  limits.kv_blocks = 2;
  Engine engine(limits);
  engine.AddWaiting(Prompt(64, 10), 0);
  EXPECT_TRUE(RunAll(engine, true).last.empty());
}

TEST(EngineTest, ManyEqualStepsAtOnceAreTheSameAsOneByOne) {
  for (const std::int64_t blocks : {12, 20, 1000}) {
    EngineLimits limits = kLimits;
    limits.kv_blocks = blocks;
    const auto fill = [&](Engine& engine) {
      engine.AddRunning({.prompt_tokens = 30, .computed_tokens = 34, .generated_tokens = 5, .output_tokens = 70}, 0);
      for (std::size_t i = 1; i < 8; ++i) {
        engine.AddWaiting(Prompt(20 + 7 * static_cast<std::int64_t>(i), 10 + 13 * static_cast<std::int64_t>(i)), i);
      }
    };
    Engine slow(limits), fast(limits);
    fill(slow);
    fill(fast);
    const Ends one_by_one = RunAll(slow, false);
    const Ends at_once = RunAll(fast, true);
    EXPECT_EQ(one_by_one.first, at_once.first) << blocks;
    EXPECT_EQ(one_by_one.last, at_once.last) << blocks;
    EXPECT_EQ(one_by_one.last.size(), 8U);
  }
}

TEST(SpeculationTest, DraftsCountAsLongAsAllBeforeThemAreAccepted) {
  EXPECT_EQ((Speculation{}.TokensPerStep()), 1);
  EXPECT_EQ((Speculation{4, 0}.TokensPerStep()), 1);
  EXPECT_EQ((Speculation{4, 1}.TokensPerStep()), 5);
  EXPECT_DOUBLE_EQ((Speculation{2, 0.5}.TokensPerStep()), 1 + 0.5 + 0.25);
  EXPECT_NEAR((Speculation{3, 0.7}.TokensPerStep()), (1 - std::pow(0.7, 4)) / 0.3, 1e-12);
}

TEST(SpeculationTest, StepsYieldTheirDraftsAndTakeRoomForThem) {
  // 100 tokens behind a prompt of one step: the first comes with it.
  const auto last_step = [](const Speculation& speculation) {
    EngineLimits limits = kLimits;
    limits.speculation = speculation;
    Engine engine(limits);
    engine.AddWaiting(Prompt(50, 100), 0);
    return RunAll(engine, false).last.at(0);
  };
  EXPECT_EQ(last_step({}), 1 + 99);
  EXPECT_EQ(last_step({3, 0}), 1 + 99);    // nothing accepted
  EXPECT_EQ(last_step({3, 1}), 1 + 25);    // ⌈99/4⌉
  EXPECT_EQ(last_step({1, 0.5}), 1 + 66);  // 99/1.5
  EngineLimits limits = kLimits;
  limits.speculation = {3, 0.5};
  Engine engine(limits);
  // 30 tokens in 2 blocks of 16; a new one and three drafts need a third.
  engine.AddRunning({.prompt_tokens = 29, .computed_tokens = 30, .generated_tokens = 2, .output_tokens = 50}, 0);
  engine.AddWaiting(Prompt(150, 1), 1);
  EXPECT_EQ(engine.blocks_used(), 2);
  engine.Schedule();
  EXPECT_EQ(engine.decoding(), 1);
  EXPECT_EQ(engine.mean_context(), 31);
  std::vector<PrefillChunk> chunks;
  engine.ChunksOf(chunks);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0], (PrefillChunk{100 - 4, 0}));  // of the budget
  EXPECT_EQ(engine.blocks_used(), 3 + 6);
  std::vector<Engine::Event> events;
  engine.Complete(1, events);
  EXPECT_EQ(engine.running()[0].sequence.generated_tokens, 3);  // 1.875 of it
  EXPECT_EQ(engine.blocks_used(), 2 + 6);                       // 31 tokens
  engine.Schedule();
  engine.Complete(1, events);
  EXPECT_EQ(engine.running()[0].sequence.generated_tokens, 5);  // 3.75
}

TEST(SpeculationTest, JumpsEndWhereSingleStepsDo) {
  for (const double acceptance : {0.0, 0.3, 0.7, 1.0}) {
    for (const auto& [blocks, budget] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {30, kLimits.token_budget}, {1000, kLimits.token_budget}, {30, 4}, {1000, 10}}) {
      EngineLimits limits = kLimits;
      limits.kv_blocks = blocks;
      limits.token_budget = budget;
      limits.speculation = {3, acceptance};
      ASSERT_TRUE(Engine::Check(limits).ok());
      const auto fill = [](Engine& engine) {
        engine.AddRunning({.prompt_tokens = 30, .computed_tokens = 34, .generated_tokens = 5, .output_tokens = 70}, 0);
        for (std::size_t i = 1; i < 8; ++i) {
          const auto n = static_cast<std::int64_t>(i);
          engine.AddWaiting(Prompt(20 + 7 * n, 10 + 13 * n), i);
        }
      };
      Engine slow(limits), fast(limits);
      fill(slow);
      fill(fast);
      const Ends one_by_one = RunAll(slow, false);
      const Ends at_once = RunAll(fast, true);
      EXPECT_EQ(one_by_one.last.size(), 8U);
      EXPECT_EQ(one_by_one.first, at_once.first) << acceptance << " " << blocks;
      EXPECT_EQ(one_by_one.last, at_once.last) << acceptance << " " << blocks;
      EXPECT_LE(at_once.most_blocks, blocks);
    }
  }
}

TEST(EngineTest, LimitsBelowOneAreRefused) {
  EXPECT_TRUE(Engine::Check(kLimits).ok());
  EngineLimits limits = kLimits;
  limits.kv_blocks = 0;
  EXPECT_NE(Engine::Check(limits).message().find("kv_blocks"), absl::string_view::npos);
  const auto field = [](const Speculation& speculation) {
    EngineLimits drafting = kLimits;
    drafting.speculation = speculation;
    return FieldOf(Engine::Check(drafting));
  };
  EXPECT_EQ(field({-1, 0}), "speculative_tokens");
  EXPECT_EQ(field({1025, 0}), "speculative_tokens");
  EXPECT_EQ(field({1, 1.01}), "acceptance");
  EXPECT_EQ(field({1, NAN}), "acceptance");
  EXPECT_EQ(field({kLimits.token_budget, 1}), "token_budget");
}

}  // namespace
}  // namespace gpueta
