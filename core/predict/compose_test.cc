#include "core/predict/compose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/graph/passes/data_parallel.h"
#include "core/graph/passes/parallel.h"
#include "core/graph/passes/training.h"

namespace gpueta {
namespace {

GraphNode Node(Work work, std::vector<int> inputs = {}, Costing costing = Costing::kKernel) {
  GraphNode node;
  node.kernel = {.name = "n", .dtype = DType::kFp32, .work = std::move(work), .launch = {}};
  node.inputs = std::move(inputs);
  node.costing = costing;
  return node;
}

std::vector<Kernel> KernelsOf(const Graph& graph) {
  std::vector<Kernel> kernels;
  for (const GraphNode& node : graph.nodes) kernels.push_back(node.kernel);
  return kernels;
}

absl::StatusOr<Estimate> Ten(const Kernel&) {
  Estimate e;
  e.latency_us = {10, 12, 15};
  e.provenance = Provenance::kInterpolated;
  e.estimator = "family";
  return e;
}

Graph Chain(int kernels) {
  Graph graph;
  for (int i = 0; i < kernels; ++i)
    graph.nodes.push_back(Node(Gemm{.m = 8 + i, .n = 8, .k = 8}, i == 0 ? std::vector<int>{} : std::vector{i - 1}));
  return graph;
}

TEST(ComposeGraphTest, KernelsOfOneStreamAddUp) {
  const Graph graph = Chain(5);
  const auto e = ComposeGraph(graph, KernelsOf(graph), {}, Ten);
  EXPECT_DOUBLE_EQ(e->latency_us.p50, 50);
  EXPECT_DOUBLE_EQ(e->provenance.at(Provenance::kInterpolated), 1);
  EXPECT_EQ(e->estimator, "family");
}

TEST(ComposeGraphTest, TheSlowerOfHostAndDeviceDecides) {
  const Graph graph = Chain(10);
  const auto device_bound = ComposeGraph(graph, KernelsOf(graph), {.host_issue_us = 1}, Ten);
  const auto host_bound = ComposeGraph(graph, KernelsOf(graph), {.host_issue_us = 100}, Ten);
  EXPECT_NEAR(device_bound->latency_us.p50, 100, 1);
  EXPECT_NEAR(host_bound->latency_us.p50, 1000, 5);
  EXPECT_GE(host_bound->latency_us.p50, 1000);
}

TEST(ComposeGraphTest, GapsLieBetweenKernelsOfAReplayedGraph) {
  const Graph graph = Chain(10);
  EXPECT_DOUBLE_EQ(ComposeGraph(graph, KernelsOf(graph), {.gap_us = 1}, Ten)->latency_us.p50, 110);
}

TEST(ComposeGraphTest, RepetitionsAreOnePartAndViewsCostNothing) {
  Graph graph;
  for (int i = 0; i < 6; ++i) graph.nodes.push_back(Node(Gemm{.m = 8, .n = 8, .k = 8}));
  graph.nodes.push_back(Node(Vector{.op = "copy", .rows = 1, .cols = 1}, {}, Costing::kFree));
  const auto e = ComposeGraph(graph, KernelsOf(graph), {}, Ten);
  ASSERT_EQ(e->parts.size(), 1u);
  EXPECT_EQ(e->parts[0].count, 6);
  EXPECT_DOUBLE_EQ(e->latency_us.p50, 60);
}

TEST(ComposeGraphTest, AGraphOfOneKernelIsNoSurerThanTheKernel) {
  const Graph graph = Chain(1);
  const auto unsure = [](const Kernel&) {
    absl::StatusOr<Estimate> e = Ten({});
    e->latency_us = {10, 80, 90};
    return e;
  };
  for (const ExecutionModel& execution : {ExecutionModel{}, {.host_issue_us = 8}, {.gap_us = 5}}) {
    const auto e = ComposeGraph(graph, KernelsOf(graph), execution, unsure);
    EXPECT_GE(e->latency_us.p90, 80 * (1 - 1e-12));
    EXPECT_LE(e->latency_us.p90, 86);
    EXPECT_GE(e->latency_us.p99, 90 * (1 - 1e-12));
  }
}

TEST(ComposeGraphTest, IndependentErrorsPartlyCancelRepeatedOnesDoNot) {
  Graph repeated;
  for (int i = 0; i < 20; ++i) repeated.nodes.push_back(Node(Gemm{.m = 8, .n = 8, .k = 8}));
  const Graph distinct = Chain(20);
  const auto width = [](const Graph& graph) {
    const Quantiles q = ComposeGraph(graph, KernelsOf(graph), {}, Ten)->latency_us;
    return std::log(q.p90 / q.p50);
  };
  EXPECT_NEAR(width(repeated), std::log(1.2), 1e-9);
  EXPECT_LT(width(distinct), width(repeated));
  EXPECT_GT(width(distinct), std::log(1.2) / std::sqrt(20.0));
}

TEST(ComposeGraphTest, ErrorsNameTheNode) {
  const Graph graph = Chain(2);
  const auto e = ComposeGraph(graph, KernelsOf(graph), {}, [](const Kernel&) -> absl::StatusOr<Estimate> {
    return absl::FailedPreconditionError("no");
  });
  EXPECT_EQ(e.status().message(), "nodes[0] (n): no");
}

// Products that become a training step of `ranks` replicas; each 10 µs, the
// optimiser's pass too.
Graph TrainingStep(std::int64_t ranks, std::int64_t bucket_bytes, std::int64_t stages = 1) {
  Graph graph = Chain(4);
  for (int i = 0; i < 4; ++i) {
    GraphNode& node = graph.nodes[static_cast<std::size_t>(i)];
    node.kernel.work = Gemm{.m = 8, .n = 8, .k = 8};
    node.parameters = 64;
    node.layer = i;
  }
  graph.parameters = 4 * 64;
  graph.parameter_bytes = 4 * graph.parameters;
  EXPECT_TRUE(SplitStages(graph, stages).ok());
  AddBackward(graph);
  AddOptimiserStep(graph, Optimiser::kAdam);
  EXPECT_TRUE(ShareOverRanks(graph, {.ranks = ranks, .bucket_bytes = bucket_bytes}).ok());
  return graph;
}

// Ten for all but collectives.
std::function<absl::StatusOr<Estimate>(const Kernel&)> WithCollectivesOf(double us) {
  return [us](const Kernel& kernel) {
    absl::StatusOr<Estimate> e = Ten(kernel);
    if (kernel.op() == Op::kCollective) e->latency_us = {us, 4 * us, 8 * us};
    return e;
  };
}

TEST(ComposeGraphTest, ReplicasTakeAsLongAsOneDeviceWhereExchangingTakesNoTime) {
  const Graph one = TrainingStep(1, 1);
  const Graph replicas = TrainingStep(8, 1);
  const double alone = ComposeGraph(one, KernelsOf(one), {}, Ten)->latency_us.p50;
  EXPECT_DOUBLE_EQ(alone, 10 * (4 + 8 + 1));
  EXPECT_NEAR(ComposeGraph(replicas, KernelsOf(replicas), {}, WithCollectivesOf(1e-9))->latency_us.p50, alone, 1e-6);
}

TEST(ComposeGraphTest, OneBucketHasNothingToHideBehind) {
  const Graph replicas = TrainingStep(8, 1 << 20);
  const auto e = ComposeGraph(replicas, KernelsOf(replicas), {}, WithCollectivesOf(70));
  EXPECT_DOUBLE_EQ(e->latency_us.p50, 10 * (4 + 8) + 70 + 10);
}

TEST(ComposeGraphTest, EarlyBucketsHideBehindTheBackwardPass) {
  const Graph replicas = TrainingStep(8, 1);  // a bucket a layer
  const auto e = ComposeGraph(replicas, KernelsOf(replicas), {}, WithCollectivesOf(15));
  // Layers are 20 µs apart: all but the last bucket hide.
  EXPECT_DOUBLE_EQ(e->latency_us.p50, 10 * (4 + 8) + 15 + 10);
  const auto part = std::ranges::find_if(e->parts, [](const GraphPart& p) { return p.kernel.op() == Op::kCollective; });
  EXPECT_EQ(part->count, 4);
  EXPECT_EQ(part->hidden, 3);
  double exposed = 0;
  for (const GraphPart& p : e->parts) exposed += p.ExposedUs();
  EXPECT_DOUBLE_EQ(exposed, e->latency_us.p50);
  // Four times slower they do not: a p90 that forgets them would be too near.
  const double slow = ComposeGraph(replicas, KernelsOf(replicas), {}, WithCollectivesOf(60))->latency_us.p50;
  EXPECT_GE(e->latency_us.p90, slow * (1 - 1e-9));
}

TEST(ComposeGraphTest, APipelineOfEqualStagesTakesTheTextbookTime) {
  Graph graph = TrainingStep(1, 1, 4);
  std::erase_if(graph.nodes, [](const GraphNode& node) { return node.turn == Turn::kStep; });
  graph.microbatches = 8;
  // 10 forward and 20 backward a stage, and sends of no time.
  const auto e = ComposeGraph(graph, KernelsOf(graph), {}, WithCollectivesOf(1e-9));
  EXPECT_NEAR(e->latency_us.p50, (8 + 4 - 1) * 30, 1e-6);
  EXPECT_EQ(e->warnings, std::vector<std::string>{"4 stages with 8 microbatches: devices idle 27 % of the step"});
}

TEST(MemoryBytesTest, AStageHoldsTheActivationsOfAllMicrobatchesInFlight) {
  const auto of = [](std::int64_t microbatches) {
    Graph graph = TrainingStep(1, 1, 4);
    graph.microbatches = microbatches;
    return MemoryBytes(graph, KernelsOf(graph));
  };
  // What a stage received, 8 × 8 of fp32, stays until its gradient; the first one's is the model's input.
  EXPECT_EQ(of(2) - of(1), 8 * 8 * 4);
  EXPECT_EQ(of(3) - of(1), 2 * 8 * 8 * 4);
  EXPECT_EQ(of(64), of(3));  // in the second of four stages three are in flight, not more
}

TEST(MemoryBytesTest, GradientsThatAreExchangedAreCountedOnce) {
  const Graph one = TrainingStep(1, 1);
  const Graph replicas = TrainingStep(8, 1 << 20);
  EXPECT_EQ(MemoryBytes(replicas, KernelsOf(replicas)), MemoryBytes(one, KernelsOf(one)));
}

TEST(MemoryBytesTest, CountsParametersAndWhatIsAliveTogether) {
  Graph graph;
  graph.parameter_bytes = 1000;
  // Two branches of 400 bytes meet: 400 + 400 + 400 live at the join.
  graph.nodes.push_back(Node(Vector{.op = "relu", .rows = 10, .cols = 10}));
  graph.nodes.push_back(Node(Vector{.op = "relu", .rows = 10, .cols = 10}, {0}));
  graph.nodes.push_back(Node(Vector{.op = "add", .rows = 10, .cols = 10, .operands = 2}, {0, 1}));
  graph.nodes.push_back(Node(Vector{.op = "relu", .rows = 10, .cols = 10}, {2}));
  EXPECT_EQ(MemoryBytes(graph, KernelsOf(graph)), 1000 + 1200);
}

TEST(MemoryBytesTest, EveryLayersCacheStaysWhileDecoding) {
  const auto of = [](std::int64_t kv_len) {
    Graph graph;
    for (int layer = 0; layer < 3; ++layer) {
      graph.nodes.push_back(Node(Attention{.phase = Attention::Phase::kDecode,
                                           .batch = 2,
                                           .query_len = 1,
                                           .kv_len = kv_len,
                                           .heads = 4,
                                           .kv_heads = 4,
                                           .head_dim = 8,
                                           .kv_dtype = DType::kFp16}));
    }
    return MemoryBytes(graph, KernelsOf(graph));
  };
  EXPECT_EQ(of(200) - of(100), 3 * 2 * 2 * 100 * 4 * 8 * 2);
}

// What whole models might have taught of a machine, and how unsure that is.
LearntMachine Learnt(double launch_ln_deviation) {
  WholeModel whole;
  for (const ParamSpec& param : WholeModelParams()) whole.theta.push_back(param.start);
  for (std::size_t v = 0; v < WholeModel::kDepartures; ++v) whole.departure[v] = DepartureParams()[v].start;
  whole.covariance[2][2] = launch_ln_deviation * launch_ln_deviation;
  whole.noise_ln = 0.1;
  return {DeviceSpec{.slug = "card", .compute_capability = 7.5, .sm_count = 40, .fp32_tflops = 8}, whole};
}

absl::StatusOr<Estimate> AsRun(const Kernel& kernel) {
  Estimate e;
  const double us = Learnt(0).Time(RunKernelOf(kernel)).us;
  e.latency_us = {us, us, us};
  e.estimator = kWholeModelEstimator;
  return e;
}

TEST(ComposeGraphTest, AStepOnALearntMachineCopiesItsInputs) {
  const Graph graph = Chain(10);
  const auto machine = std::make_shared<const LearntMachine>(Learnt(0));
  const auto us = [&](double bytes) {
    return ComposeGraph(graph, KernelsOf(graph), {.learnt = machine, .input_bytes = bytes}, AsRun)->latency_us.p50;
  };
  EXPECT_NEAR(us(8e6) - us(0), machine->CopyUs(8e6), 1e-6);
  EXPECT_GT(us(0), machine->StepFixedUs());
}

TEST(ComposeGraphTest, IntervalsAreAsWideAsTheMachineIsUnknown) {
  const Graph graph = Chain(200);  // of tiny products: the host decides
  const auto width = [&](double launch_ln_deviation) {
    const auto machine = std::make_shared<const LearntMachine>(Learnt(launch_ln_deviation));
    const Quantiles q = ComposeGraph(graph, KernelsOf(graph), {.learnt = machine}, AsRun)->latency_us;
    EXPECT_GE(q.p99, q.p90);
    return std::log(q.p90 / q.p50);
  };
  EXPECT_LT(width(0), 0.13);
  EXPECT_NEAR(width(0.5), 1.2816 * 0.5, 0.1);
}

TEST(InHostTest, WhatIsKnownOfAHostTakesThePlaceOfWhatWasLearnt) {
  WholeModel learnt = Learnt(0.5).learnt();
  learnt.covariance[WholeModel::kCompute][WholeModel::kLaunch] = 0.1;
  learnt.covariance[WholeModel::kCopy][WholeModel::kCopy] = 0.3;
  const WholeModel known = InHost(learnt, {.issue_us = 11});
  EXPECT_DOUBLE_EQ(std::exp(known.departure[WholeModel::kLaunch]), 11);
  EXPECT_EQ(known.covariance[WholeModel::kLaunch][WholeModel::kLaunch], 0);
  EXPECT_EQ(known.covariance[WholeModel::kCompute][WholeModel::kLaunch], 0);
  EXPECT_EQ(known.departure[WholeModel::kCopy], learnt.departure[WholeModel::kCopy]);
  EXPECT_EQ(known.covariance[WholeModel::kCopy][WholeModel::kCopy], 0.3);
  const LearntMachine machine(DeviceSpec{.slug = "card", .sm_count = 40, .fp32_tflops = 8},
                              InHost(learnt, {.copy_gb_s = 4}));
  EXPECT_NEAR(machine.CopyUs(8e6), 2000, 1e-6);
}

}  // namespace
}  // namespace gpueta
