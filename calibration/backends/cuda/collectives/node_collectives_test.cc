// Collectives of a node of simulated devices, through the backend.
#include "calibration/backends/cuda/collectives/node_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/simulated/simulated_communicators.h"
#include "calibration/backends/cuda/simulated/simulated_library.h"
#include "calibration/backends/measure.h"
#include "core/base/errors.h"
#include "core/ops/collective/collective.h"

namespace gpueta {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

struct Node {
  explicit Node(std::size_t devices, const SimulatedLinks& hidden = {}, const CudaOptions& options = {},
                SimulatedGpu gpu = {})
      : links(hidden), driver(std::move(gpu)) {
    CudaParts parts;
    auto device = driver.OpenSimulated();
    own = device.get();
    parts.libraries.push_back(MakeSimulatedLibrary(*device));
    parts.device = std::move(device);
    parts.card = driver.OpenCard(0).value();
    parts.activities = driver.OpenRecorder();
    parts.time = driver.Time();
    parts.collectives = MakeSimulatedCollectives(links);
    for (std::size_t i = 1; i < devices; ++i) {
      auto peer = driver.OpenSimulated();
      peers.push_back(peer.get());
      parts.peers.push_back({.device = std::move(peer), .card = driver.OpenCard(0).value()});
    }
    own->Activate().IgnoreError();
    backend = MakeCudaBackend(std::move(parts), options).value();
  }
  absl::StatusOr<MeasuredKernel> Measure(const Kernel& kernel) {
    return MeasureKernel(*backend, kernel, backend->timing_policy(), driver.Time().now);
  }

  SimulatedLinks links;
  SimulatedDriver driver;
  SimulatedDevice* own = nullptr;
  std::vector<SimulatedDevice*> peers;
  std::unique_ptr<Backend> backend;
};

Kernel Of(const std::string& op, std::int64_t bytes, std::int64_t ranks) {
  return {.dtype = DType::kFp16, .work = Collective{.op = op, .backend = "nccl-tests", .bytes = bytes, .ranks = ranks}};
}

// By the bytes that tables count, and the steps of a ring.
double ExpectedUs(const SimulatedLinks& links, const Kernel& kernel) {
  const auto& collective = std::get<Collective>(kernel.work);
  const double n = static_cast<double>(collective.ranks);
  const double steps = collective.op == "all_reduce" ? 2 * (n - 1) : collective.op == "send_recv" ? 1 : n - 1;
  return links.start_us + steps * links.step_us + BusBytes(collective) * 1e-3 / links.gb_s;
}

TEST(NodeCollectivesTest, EveryOperatorTakesWhatItsBytesAndRanksSay) {
  for (const Timing timing : {Timing::kGraph, Timing::kKernel}) {
    Node node(4, {}, {.timing = timing});
    for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "send_recv"}) {
      for (const std::int64_t ranks : {2, 4}) {
        const Kernel kernel = Of(op, 64 << 20, ranks);
        const auto measured = node.Measure(kernel);
        ASSERT_TRUE(measured.ok()) << measured.status();
        EXPECT_EQ(measured->measurement.timing, timing);
        EXPECT_EQ(measured->measurement.source, "simulated-collectives");
        EXPECT_NEAR(measured->measurement.latency_us, ExpectedUs(node.links, kernel), 1) << Describe(kernel);
        EXPECT_FALSE(measured->timing.disturbed);
      }
    }
    EXPECT_EQ(node.links.connected, 2U);  // once for each number of ranks
    EXPECT_EQ(node.driver.state().misplaced, 0U);
    EXPECT_EQ(node.driver.state().current, node.own);
  }
}

// Eight launches from one thread take longer than a small collective: a graph has them
// ready.
TEST(NodeCollectivesTest, AGraphHidesTheHostThatIssuesForAllRanks) {
  const Kernel kernel = Of("all_gather", 512, 8);
  SimulatedGpu slow_host;
  slow_host.host_issue_us = 10;
  Node graph(8, {}, {.timing = Timing::kGraph}, slow_host);
  const double expected_us = ExpectedUs(graph.links, kernel);
  EXPECT_NEAR(graph.Measure(kernel)->measurement.latency_us, expected_us + slow_host.graph_gap_us, 0.2);
  Node calls(8, {}, {.timing = Timing::kKernel}, slow_host);
  EXPECT_GT(calls.Measure(kernel)->measurement.latency_us, 8 * slow_host.host_issue_us);
}

TEST(NodeCollectivesTest, EagerHasTheHostsPart) {
  Node node(2, {}, {.timing = Timing::kEager});
  const Kernel kernel = Of("all_reduce", 4096, 2);
  const auto measured = node.Measure(kernel);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_GT(measured->measurement.latency_us, ExpectedUs(node.links, kernel) + SimulatedGpu().launch_latency_us);
}

TEST(NodeCollectivesTest, TheSlowestRankCounts) {
  Node node(3, {.slow_rank_us = 25});
  const Kernel kernel = Of("all_reduce", 1 << 20, 3);
  EXPECT_NEAR(node.Measure(kernel)->measurement.latency_us,
              ExpectedUs(node.links, kernel) + 25 + SimulatedGpu().graph_gap_us, 0.5);
}

TEST(NodeCollectivesTest, ARankThatNeverComesIsAnErrorThatEndsTheConnection) {
  Node node(2, {.missing = 1}, {.hung_after_us = 1e5});
  const Kernel kernel = Of("all_reduce", 1 << 20, 2);
  const absl::Status status = node.Measure(kernel).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(status), HasSubstr("all_reduce/2"));
  EXPECT_EQ(node.links.aborted, 1U);
  EXPECT_EQ(node.own->FreeMemory().value(), SimulatedGpu().properties.memory_bytes);
  EXPECT_EQ(node.peers[0]->FreeMemory().value(), SimulatedGpu().properties.memory_bytes);
}

// Of another kernel, too, that uses the same ranks.
TEST(NodeCollectivesTest, GraphsAreGoneBeforeTheirRanksConnectionEnds) {
  Node node(2, {}, {.timing = Timing::kGraph, .hung_after_us = 1e5});
  const auto other = node.backend->Prepare(Of("all_gather", 1 << 20, 2)).value();
  const auto hanging = node.backend->Prepare(Of("all_reduce", 1 << 20, 2)).value();
  ASSERT_TRUE(other->TakeSample(4).ok());
  ASSERT_TRUE(hanging->TakeSample(4).ok());
  node.links.missing = 1;
  EXPECT_EQ(hanging->TakeSample(8).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(node.links.aborted, 1U);
  EXPECT_EQ(node.links.waits_for_graphs, 0U);
  EXPECT_EQ(other->TakeSample(4).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(node.driver.state().current, node.own);
}

// The ranks are connected anew, and nothing of the broken connection is left.
TEST(NodeCollectivesTest, WhatTheLibrarySaysIsToldAndTheNextOneStartsAfresh) {
  Node node(2, {.missing = 1, .breaks = "NVLink is down"}, {.hung_after_us = 1e5});
  const Kernel kernel = Of("all_reduce", 1 << 20, 2);
  const absl::Status status = node.Measure(kernel).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(status), HasSubstr("NVLink is down"));
  // The stream of the rank that waited is lost on a simulated device; others work.
  EXPECT_EQ(node.links.aborted, 1U);
  node.links.missing = -1;
  node.links.breaks.clear();
  EXPECT_EQ(node.backend->Supports(kernel), absl::OkStatus());
}

TEST(NodeCollectivesTest, WhatDoesNotFitIsAnErrorThatLeavesTheRanksConnected) {
  Node node(2);
  const absl::Status status = node.Measure(Of("all_reduce", std::int64_t{20} << 30, 2)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(node.links.aborted, 0U);
  EXPECT_TRUE(node.Measure(Of("all_reduce", 1 << 20, 2)).ok());
  EXPECT_EQ(node.links.connected, 1U);
}

TEST(NodeCollectivesTest, RanksThatCannotBeConnectedSayWhy) {
  Node node(2, {.refuses = "no shared memory left"});
  EXPECT_THAT(MessageOf(node.Measure(Of("all_reduce", 4096, 2)).status()), HasSubstr("no shared memory left"));
  EXPECT_EQ(node.driver.state().current, node.own);
}

TEST(NodeCollectivesTest, TooFewDevicesAreNamed) {
  Node node(2);
  const absl::Status status = node.backend->Supports(Of("all_reduce", 4096, 4));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(status), HasSubstr("2 GPUs"));
  Node alone(1);
  EXPECT_EQ(alone.backend->Supports(Of("all_reduce", 4096, 2)).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(alone.backend->peers(), SizeIs(0));
}

TEST(NodeCollectivesTest, OtherDevicesAreNamedSoThatTheyCanBeLocked) {
  Node node(3);
  EXPECT_THAT(node.backend->peers(), SizeIs(2));
  EXPECT_NE(node.backend->peers()[0], node.backend->peers()[1]);
  EXPECT_NE(node.backend->peers()[0], node.backend->labels().at("uuid"));
  EXPECT_THAT(node.backend->labels(), Contains(Pair("simulated-collectives", "1")));
}

TEST(NodeCollectivesTest, AModelRunsWithoutThem) {
  Node node(2);
  const std::vector<Kernel> model = {Of("all_reduce", 4096, 2)};
  EXPECT_THAT(MessageOf(node.backend->PrepareGraph(model).status()), HasSubstr("one by one"));
}

}  // namespace
}  // namespace gpueta
