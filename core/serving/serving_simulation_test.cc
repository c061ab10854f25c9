// What admission promises, against simulated engines whose true step times
// differ from the predicted ones as much as predictions say they may.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "core/serving/max_batch.h"
#include "core/serving/testing_models.h"
#include "core/serving/testing_simulator.h"

namespace gpueta {
namespace {

using testing::Pattern;
using testing::Score;
using testing::SimulatedReplica;

constexpr double kMeanOutput = 64;
constexpr std::int64_t kBudget = 2048;
constexpr int kArrivals = 250;
constexpr int kDraws = 5;  // of the fleet's true step times

// Two kinds of GPU, one replica each.
struct Fleet {
  struct Kind {
    StepModel model;
    StepTable table;
  };
  std::vector<Kind> kinds;
  LatencyLimits limits;
  double capacity_per_s = 0;
  std::int64_t concurrency = 0;  // of the smaller one at capacity

  Fleet() {
    double slowest_us = 0;
    for (const char* slug : {"h100-sxm", "a100-sxm4-80gb"}) {
      StepModel model = StepModel::Compile(testing::SmallLlama(), slug).value();
      StepTable table =
          StepTable::Build(model, *testing::TestDevice(slug), {.tokens = kBudget, .sequences = 64, .context = 8192})
              .value();
      slowest_us = std::max(slowest_us, table.Latency({{}, 16, 1024, 1024}).p50_us);
      kinds.push_back({std::move(model), std::move(table)});
    }
    limits.ttft = LatencyLimit{.us = 25 * slowest_us, .quantile = 0.9};
    limits.tpot = LatencyLimit{.us = 1.7 * slowest_us, .quantile = 0.9};
    for (const Kind& kind : kinds) {
      const CacheRoom room = RoomForCache(kind.model, 80, kBudget).value();
      const SteadyState most =
          MaxRequestRate(SteadyStatesWithin(kind.model, kind.table, room, 690, kMeanOutput, kBudget, limits).value());
      capacity_per_s += most.requests_per_s;
      concurrency = concurrency == 0 ? most.sequences : std::min(concurrency, most.sequences);
    }
  }

  // With true step times at stratified quantiles of what is predicted.
  std::vector<SimulatedReplica> Replicas(int draw) const {
    std::vector<SimulatedReplica> replicas;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      SimulatedReplica replica;
      replica.seen.state.limits = {.token_budget = kBudget, .max_sequences = 64, .kv_blocks = 20'000};
      replica.seen.table = &kinds[k].table;
      replica.seen.lengths = OutputLengths::Geometric(kMeanOutput);
      const double sigma = kinds[k].table.Latency({{}, 16, 1024, 1024}).sigma;
      const int at = (draw * 2 + static_cast<int>(k) * 3) % kDraws;
      replica.slowness = std::exp(sigma * NormalQuantile((at + 0.5) / kDraws));
      replicas.push_back(replica);
    }
    return replicas;
  }
};

const Fleet& TheFleet() {
  static const Fleet fleet;
  return fleet;
}

struct Load {
  std::optional<Pattern> pattern;  // unset: as they were recorded
  double share;                    // of capacity
};

class AdmitSimulationTest : public ::testing::TestWithParam<Load> {
 protected:
  Score RunAll(const testing::Router& router, bool tell_lengths) const {
    const Fleet& fleet = TheFleet();
    Score all;
    double ttft = 0, tpot = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const auto seed = static_cast<std::uint64_t>(draw);
      const double per_s = GetParam().share * fleet.capacity_per_s;
      const auto arrivals = GetParam().pattern.has_value()
                                ? testing::MakeArrivals(*GetParam().pattern, per_s, kArrivals, kMeanOutput, seed)
                                : testing::AtRate(Recorded(), per_s);
      const Score one = Judge(Simulate(fleet.Replicas(draw), arrivals, router, tell_lengths, seed), fleet.limits);
      ttft += one.met_ttft * one.admitted;
      tpot += one.met_tpot * one.admitted;
      all.admitted += one.admitted;
      all.good += one.good;
    }
    all.met_ttft = ttft / all.admitted;
    all.met_tpot = tpot / all.admitted;
    all.met_both = static_cast<double>(all.good) / all.admitted;
    return all;
  }

  static std::vector<testing::Arrival> Recorded() {
    const std::string path = "tests/data/arrivals.csv";
    std::ifstream in(path);
    return testing::ReadArrivals(in, path).value();
  }

  static void Print(const std::string& name, const Score& s) {
    fmt::print("  {:<20} admitted {:5} of {}, met TTFT {:.3f}, TPOT {:.3f}, both {:.3f}, good {}\n", name, s.admitted,
               kArrivals * kDraws, s.met_ttft, s.met_tpot, s.met_both, s.good);
  }
};

TEST_P(AdmitSimulationTest, KeepsItsPromisesAtNearlyTheGoodputOfAnOracle) {
  const Fleet& fleet = TheFleet();
  const Score admit = RunAll(testing::ByAdmit(fleet.limits), false);
  const Score oracle = RunAll(testing::Oracle(fleet.limits), true);
  const Score concurrency = RunAll(testing::FixedConcurrency(fleet.concurrency), false);
  const Score queue = RunAll(testing::QueueLength(2), false);
  fmt::print("capacity {:.4g} requests/s, concurrency {}\n", fleet.capacity_per_s, fleet.concurrency);
  Print("admit", admit);
  Print("oracle", oracle);
  Print("fixed concurrency", concurrency);
  Print("queue length", queue);
  EXPECT_GE(admit.met_ttft, 0.9);
  EXPECT_GE(admit.met_tpot, 0.9);
  EXPECT_GE(admit.good, 0.95 * oracle.good);
  EXPECT_GE(admit.good, std::max(concurrency.good, queue.good) * 0.98);
}

INSTANTIATE_TEST_SUITE_P(Loads, AdmitSimulationTest,
                         ::testing::Values(Load{Pattern::kPoisson, 0.7}, Load{Pattern::kPoisson, 0.9},
                                           Load{Pattern::kPoisson, 1.1}, Load{Pattern::kBursty, 0.7},
                                           Load{Pattern::kBursty, 0.9}, Load{Pattern::kBursty, 1.1},
                                           Load{std::nullopt, 0.9}));

TEST(RecordedArrivalsTest, SaysWhatIsWrongWithAFile) {
  const auto read = [](const std::string& text) {
    std::istringstream in(text);
    return testing::ReadArrivals(in, "a.csv");
  };
  const std::string header = "arrival_s,prompt_tokens,output_tokens\n";
  const auto arrivals = read(header + "0,10,2\n0.5,20,3\n4,30,4\n");
  ASSERT_TRUE(arrivals.ok()) << arrivals.status();
  EXPECT_EQ(arrivals->back().at_us, 4e6);
  EXPECT_EQ(testing::AtRate(*arrivals, 1.5)[1].at_us, 0.25e6);  // three in two seconds
  for (const std::string& wrong : {std::string("at,prompt_tokens,output_tokens\n"), header + "1,10,2\n0,10,2\n",
                                   header + "1,0,2\n", header + "1,2\n", header + "x,1,2\n"}) {
    EXPECT_FALSE(read(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace gpueta
