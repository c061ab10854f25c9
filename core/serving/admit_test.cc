#include "core/serving/admit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/serving/testing_models.h"

namespace gpueta {
namespace {

using testing::Table;

Replica Idle(Replica::Role role = Replica::Role::kBoth) {
  Replica replica;
  replica.role = role;
  replica.state.limits = {.token_budget = 1024, .max_sequences = 64, .kv_blocks = 10'000, .block_tokens = 16};
  replica.table = &Table();
  replica.lengths = OutputLengths::Geometric(100);
  return replica;
}

Replica Busy(int waiting) {
  Replica replica = Idle();
  for (int i = 0; i < waiting; ++i) {
    replica.state.waiting.push_back({.sequence = {.prompt_tokens = 2000, .output_tokens = 50}});
  }
  return replica;
}

TEST(AdmitTest, RecommendsTheReplicaWithTheLargestMargin) {
  const Replica replicas[] = {Busy(30), Idle(), Busy(3)};
  const auto result = Admit(replicas, {.prompt_tokens = 500}, {.ttft = LatencyLimit{.us = 1e6}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->recommended, 1U);
  EXPECT_GT(result->replicas[1].margin, result->replicas[2].margin);
  EXPECT_GT(result->replicas[2].margin, result->replicas[0].margin);
  EXPECT_EQ(result->replicas[1].binds, "ttft");
}

TEST(AdmitTest, ThePrefixCacheDecidesBetweenEqualReplicas) {
  Replica replicas[] = {Idle(), Idle()};
  replicas[1].cached_tokens = 1500;
  const auto result = Admit(replicas, {.prompt_tokens = 2000}, {.ttft = LatencyLimit{.us = 1e6}});
  EXPECT_EQ(result->recommended, 1U);
  EXPECT_LT(result->replicas[1].ttft_us, 0.7 * result->replicas[0].ttft_us);
}

TEST(AdmitTest, RefusesWhatWouldMissItsLimitAndSaysWhichBinds) {
  const Replica replicas[] = {Busy(50)};
  const auto result = Admit(replicas, {.prompt_tokens = 500}, {.ttft = LatencyLimit{.us = 2000}});
  EXPECT_FALSE(result->replicas[0].admit);
  EXPECT_FALSE(result->recommended.has_value());
  EXPECT_EQ(result->replicas[0].binds, "ttft");
  EXPECT_LT(result->replicas[0].margin, 0);
}

TEST(AdmitTest, AHigherQuantileIsAStricterLimit) {
  const Replica replicas[] = {Busy(5)};
  double last = 1;
  for (const double quantile : {0.5, 0.75, 0.9, 0.99, 0.999}) {
    const auto result =
        Admit(replicas, {.prompt_tokens = 500}, {.tpot = LatencyLimit{.us = 1e5, .quantile = quantile}});
    EXPECT_LT(result->replicas[0].margin, last) << quantile;
    last = result->replicas[0].margin;
  }
}

TEST(AdmitTest, ProtectsThoseThatRun) {
  Replica replica = Idle();
  replica.lengths = OutputLengths::Fixed(30);
  for (int i = 0; i < 8; ++i) {
    replica.state.running.push_back(
        {.sequence = {.prompt_tokens = 100, .computed_tokens = 109, .generated_tokens = 10, .output_tokens = 30}});
  }
  const Candidate huge{.prompt_tokens = 15'000, .output_tokens = 2};
  const auto alone = Forecast(replica.state, Table(), replica.lengths);
  const double tpot_us = (*alone)[0].tpot_us.Quantile(0.9);
  const auto result = Admit({&replica, 1}, huge, {.tpot = LatencyLimit{.us = tpot_us * 1.05}});
  EXPECT_FALSE(result->replicas[0].admit);
  EXPECT_EQ(result->replicas[0].binds, "tpot of the others");
  // Those that are late anyway are no reason to refuse.
  for (Request& request : replica.state.running) request.since_first_token_us = 1e9;
  const auto late =
      Admit({&replica, 1}, {.prompt_tokens = 10, .output_tokens = 30}, {.tpot = LatencyLimit{.us = tpot_us * 2}});
  EXPECT_TRUE(late->replicas[0].admit);
}

TEST(AdmitTest, WhatTheCacheCannotHoldIsRefused) {
  Replica replica = Idle();
  replica.state.limits.kv_blocks = 10;
  const auto result = Admit({&replica, 1}, {.prompt_tokens = 5000}, {.ttft = LatencyLimit{.us = 1e9}});
  EXPECT_FALSE(result->replicas[0].admit);
  EXPECT_EQ(result->replicas[0].binds, "kv_blocks");
}

TEST(AdmitTest, PromptsMayBeComputedElsewhere) {
  Replica replicas[] = {Idle(Replica::Role::kPrefill), Idle(Replica::Role::kDecode), Idle(Replica::Role::kDecode)};
  replicas[1].transfer_us_per_token = 100;
  replicas[2].transfer_us_per_token = 1;
  const auto result = Admit(replicas, {.prompt_tokens = 4000, .output_tokens = 50},
                            {.ttft = LatencyLimit{.us = 1e6}, .tpot = LatencyLimit{.us = 1e5}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->recommended, 2U);
  EXPECT_EQ(result->recommended_prefill, 0U);
  EXPECT_EQ(result->replicas[2].ttft_us, result->replicas[0].ttft_us);
  EXPECT_GT(result->replicas[1].e2e_us, result->replicas[2].e2e_us + 350e3);
}

TEST(AdmitTest, RequestsOfAPrefillPoolGoWithTheirFirstToken) {
  const auto ttft_us = [](std::int64_t output_tokens) {
    Replica replicas[] = {Idle(Replica::Role::kPrefill), Idle(Replica::Role::kDecode)};
    for (int i = 0; i < 60; ++i) {
      replicas[0].state.waiting.push_back({.sequence = {.prompt_tokens = 2000, .output_tokens = output_tokens}});
    }
    return Admit(replicas, {.prompt_tokens = 500}, {.ttft = LatencyLimit{.us = 1e9}})->replicas[0].ttft_us;
  };
  EXPECT_EQ(ttft_us(0), ttft_us(1));
  EXPECT_EQ(ttft_us(200), ttft_us(1));
}

TEST(AdmitTest, WhatWaitsInADecodePoolComputesNoPrompt) {
  const auto tpot_us = [](std::int64_t prompt_tokens) {
    Replica replicas[] = {Idle(Replica::Role::kPrefill), Idle(Replica::Role::kDecode)};
    for (int i = 0; i < 40; ++i) {
      replicas[1].state.waiting.push_back({.sequence = {.prompt_tokens = prompt_tokens, .output_tokens = 50}});
    }
    return Admit(replicas, {.prompt_tokens = 500, .output_tokens = 50}, {.tpot = LatencyLimit{.us = 1e9}})
        ->replicas[1]
        .tpot_us;
  };
  // Sixteen times the prompts: keys to read, none to compute.
  EXPECT_LT(tpot_us(1600), 2 * tpot_us(100));
}

TEST(AdmitTest, PoolsOfPrefillAndDecodeNeedEachOther) {
  const Replica replicas[] = {Idle(Replica::Role::kPrefill), Idle(Replica::Role::kDecode), Idle()};
  for (const std::size_t alone : {0, 1}) {
    for (const std::vector<std::size_t>& among : {std::vector<std::size_t>{alone}, {2, alone}}) {
      const auto result = Admit(replicas, {.prompt_tokens = 10, .among = among}, {});
      EXPECT_NE(result.status().message().find(alone == 0 ? "replicas[0].role: prefill needs a decode replica"
                                                          : "replicas[1].role: decode needs a prefill replica"),
                absl::string_view::npos)
          << result.status();
    }
  }
}

TEST(AdmitTest, OnlyTheReplicasNamedAreJudged) {
  const Replica replicas[] = {Idle(), Busy(30), Busy(3)};
  const LatencyLimits limits = {.ttft = LatencyLimit{.us = 1e6}};
  const auto all = Admit(replicas, {.prompt_tokens = 500}, limits);
  const auto some = Admit(replicas, {.prompt_tokens = 500, .among = {1, 2}}, limits);
  ASSERT_EQ(some->replicas.size(), 2U);
  EXPECT_EQ(some->recommended, 1U);  // the second of those named
  EXPECT_EQ(some->replicas[0].margin, all->replicas[1].margin);
}

TEST(AdmitTest, SaysWhichFieldIsWrong) {
  const Replica replicas[] = {Idle()};
  const auto error = [&](const Candidate& candidate, const LatencyLimits& limits) {
    return std::string(Admit(replicas, candidate, limits).status().message());
  };
  EXPECT_NE(error({.prompt_tokens = 0}, {}).find("candidate.prompt_tokens"), std::string::npos);
  EXPECT_NE(error({.prompt_tokens = 1}, {.ttft = LatencyLimit{.us = -1}}).find("limits.ttft"), std::string::npos);
  EXPECT_NE(error({.prompt_tokens = 1}, {.tpot = LatencyLimit{.us = 1, .quantile = 1}}).find("quantile"),
            std::string::npos);
  Replica bad = Idle();
  bad.table = nullptr;
  EXPECT_NE(Admit({&bad, 1}, {.prompt_tokens = 1}, {}).status().message().find("replicas[0].table"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace gpueta
