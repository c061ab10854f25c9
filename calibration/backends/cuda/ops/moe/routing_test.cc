#include "calibration/backends/cuda/ops/moe/routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Moe MoeOf(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, const std::string& distribution,
          std::int64_t ep = 1) {
  return {.num_tokens = tokens,
          .hidden_size = 64,
          .inter_size = 32,
          .top_k = top_k,
          .num_experts = experts,
          .ep = ep,
          .distribution = distribution};
}

TEST(RoutingTest, BalancedExpertsGetAlike) {
  EXPECT_THAT(*ExpertLoads(MoeOf(16, 2, 8, "balanced")), ElementsAre(4, 4, 4, 4, 4, 4, 4, 4));
  EXPECT_THAT(*ExpertLoads(MoeOf(3, 1, 4, "")), ElementsAre(1, 1, 1, 0));
}

TEST(RoutingTest, APowerLawLoadsTheFirstExpertsMost) {
  const std::vector<std::int64_t> loads = *ExpertLoads(MoeOf(1'000, 2, 64, "power_law_1.2"));
  EXPECT_GT(loads.front(), 10 * loads.back());
}

TEST(RoutingTest, EveryChoiceIsOnOneExpertAndNoneTwiceOnTheSame) {
  for (const char* distribution : {"", "balanced", "power_law_1.01", "power_law_1.2", "power_law_8"}) {
    for (const std::int64_t tokens : {1, 7, 64, 333}) {
      for (const std::int64_t top_k : {1, 2, 8}) {
        const std::vector<std::int64_t> loads = *ExpertLoads(MoeOf(tokens, top_k, 16, distribution));
        ASSERT_EQ(loads.size(), 16U);
        EXPECT_EQ(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}), tokens * top_k);
        for (const std::int64_t load : loads) {
          EXPECT_GE(load, 0);
          EXPECT_LE(load, tokens) << distribution;
        }
      }
    }
  }
}

TEST(RoutingTest, OtherDistributionsAreNamed) {
  for (const char* distribution : {"zipf", "power_law_", "power_law_x", "power_law_-1", "power_law_nan"}) {
    const absl::Status status = ExpertLoads(MoeOf(8, 2, 8, distribution)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(MessageOf(status), HasSubstr(distribution));
  }
}

TEST(RoutingTest, SizesThatNoModelHasTakeNoMemory) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 50;
  for (const Moe& moe : {MoeOf(1, 1, kHuge, ""), MoeOf(kHuge, 1, 8, ""), MoeOf(1 << 20, 1 << 20, 1 << 16, "")}) {
    EXPECT_EQ(RouteTokens(moe, 1).status().code(), absl::StatusCode::kUnimplemented);
  }
}

TEST(RoutingTest, RowsOfExpertsAreAlignedAndTokensFindTheirs) {
  const Routing routing = *RouteTokens(MoeOf(10, 2, 8, "power_law_1.2"), 4);
  EXPECT_EQ(routing.experts_on_rank, 8);
  std::set<std::int32_t> rows;
  for (const Routing::Expert& expert : routing.experts) EXPECT_EQ(expert.first_row % 4, 0);
  ASSERT_EQ(routing.tokens.size(), 20U);
  for (std::size_t i = 0; i < routing.tokens.size(); ++i) {
    EXPECT_TRUE(rows.insert(routing.rows[i]).second);
    EXPECT_LT(routing.rows[i], routing.row_count);
    const auto token = static_cast<std::size_t>(routing.tokens[i]);
    const auto begin = routing.token_rows.begin();
    EXPECT_NE(std::find(begin + routing.token_begins[token], begin + routing.token_begins[token + 1], routing.rows[i]),
              begin + routing.token_begins[token + 1]);
  }
  EXPECT_EQ(routing.token_begins.size(), 11U);
  EXPECT_EQ(routing.token_begins.back(), 20);
}

TEST(RoutingTest, ARankHasItsShareOfExpertsTheBusiestAmongThem) {
  const Routing routing = *RouteTokens(MoeOf(64, 4, 32, "power_law_1.2", 4), 1);
  EXPECT_EQ(routing.experts_on_rank, 8);
  EXPECT_EQ(routing.experts.front().rows, ExpertLoads(MoeOf(64, 4, 32, "power_law_1.2"))->front());
  EXPECT_GE(static_cast<std::int64_t>(routing.tokens.size()), 64 * 4 / 4);
}

}  // namespace
}  // namespace gpueta
