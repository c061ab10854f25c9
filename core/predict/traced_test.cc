#include "core/predict/traced.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/graph/passes/traced_batch.h"

namespace gpueta {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Of the data sheet alone.
Predictor Of(const char* device) { return {Catalogue::BuiltIn().Get(device).value(), nullptr, nullptr}; }

GraphNode Node(Work work, std::vector<int> inputs = {}) {
  GraphNode node;
  node.kernel = {.name = "n", .dtype = DType::kFp32, .work = std::move(work), .launch = {}};
  node.inputs = std::move(inputs);
  return node;
}

const Gemm kProduct{.m = 512, .n = 1024, .k = 1024};
const Vector kRelu{.op = "relu", .rows = 512, .cols = 1024};
const Custom kMine{.op = "mine", .flops = 0, .bytes = 100'000'000};

// A product twice, a vector operator, and a kernel that nobody knows.
Graph Traced() {
  Graph graph;
  graph.nodes = {Node(kProduct), Node(kRelu, {0}), Node(kProduct, {1}), Node(kMine, {2})};
  return graph;
}
constexpr double kTracedUs[] = {200, 10, 220, 70};

constexpr EstimateOptions kReplayed{.mode = ExecutionMode::kGraph};

double ModelUs(const Predictor& predictor, const Work& work) {
  const Kernel kernel{.name = "n", .dtype = DType::kFp32, .work = work, .launch = {}};
  return predictor.EstimateKernel(kernel, predictor.KernelOptionsOf(kReplayed))->latency_us.p50;
}

TEST(EstimateTracedTest, OnTheTracedDeviceKernelsTakeWhatTheyTook) {
  const Predictor a100 = Of("a100-sxm4-80gb");
  const GraphEstimate estimate = *EstimateTraced(a100, a100, Traced(), kTracedUs, {}, kReplayed);
  EXPECT_DOUBLE_EQ(estimate.time.kernels_us, 500);
  ASSERT_EQ(estimate.parts.size(), 3U);
  EXPECT_DOUBLE_EQ(estimate.parts[0].estimate.latency_us.p50, 210);  // the mean of equal work
  EXPECT_EQ(estimate.parts[0].estimate.estimator, kTracedEstimator);
  EXPECT_GT(estimate.time.gaps_us, 0);  // the model's own
  EXPECT_THAT(estimate.warnings, Contains(HasSubstr("took on a100-sxm4-80gb")));
}

TEST(EstimateTracedTest, AnotherDeviceTakesThemByTheRatioOfTheModel) {
  const Predictor a100 = Of("a100-sxm4-80gb"), t4 = Of("t4");
  const GraphEstimate estimate = *EstimateTraced(t4, a100, Traced(), kTracedUs, {}, kReplayed);
  const double expected[] = {210, 10, 70};
  const Work works[] = {kProduct, kRelu, kMine};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(
        estimate.parts[i].estimate.latency_us.p50 / (expected[i] * ModelUs(t4, works[i]) / ModelUs(a100, works[i])), 1,
        1e-6)
        << i;
  }
  // What nobody knows goes with the memory.
  const double bandwidths = a100.spec().mem_bandwidth_gb_s / t4.spec().mem_bandwidth_gb_s;
  EXPECT_NEAR(estimate.parts[2].estimate.latency_us.p50 / 70, bandwidths, 0.2 * bandwidths);
}

TEST(EstimateTracedTest, AnotherBatchTakesThemByTheRatioOfTheModel) {
  const Predictor a100 = Of("a100-sxm4-80gb");
  Graph graph = Traced();
  ASSERT_TRUE(MakeBatchSymbolic(graph, 8).ok());
  EXPECT_DOUBLE_EQ(EstimateTraced(a100, a100, graph, kTracedUs, {}, kReplayed)->time.kernels_us, 500);
  EXPECT_DOUBLE_EQ(EstimateTraced(a100, a100, graph, kTracedUs, {{"batch", 8}}, kReplayed)->time.kernels_us, 500);
  const GraphEstimate estimate = *EstimateTraced(a100, a100, graph, kTracedUs, {{"batch", 32}}, kReplayed);
  Gemm larger = kProduct;
  larger.m *= 4;
  EXPECT_NEAR(estimate.parts[0].estimate.latency_us.p50 / (210 * ModelUs(a100, larger) / ModelUs(a100, kProduct)), 1,
              1e-6);
}

TEST(EstimateTracedTest, WhatHasNoTimeIsAsTheModelSays) {
  const Predictor a100 = Of("a100-sxm4-80gb");
  const double times[] = {0, 10, 0, 70};
  const GraphEstimate estimate = *EstimateTraced(a100, a100, Traced(), times, {}, kReplayed);
  EXPECT_EQ(estimate.parts[0].estimate.latency_us.p50, ModelUs(a100, kProduct));
  EXPECT_NE(estimate.parts[0].estimate.estimator, kTracedEstimator);
}

TEST(EstimateTracedTest, StreamsRunBesideEachOther) {
  const Predictor a100 = Of("a100-sxm4-80gb");
  Graph graph = Traced();
  graph.nodes[3].inputs = {0};
  graph.nodes[3].stream = DeviceStream::kCommunication;
  const GraphEstimate estimate = *EstimateTraced(a100, a100, graph, kTracedUs, {}, kReplayed);
  EXPECT_DOUBLE_EQ(estimate.time.kernels_us, 430);
  EXPECT_EQ(estimate.parts[2].hidden, 1);
}

TEST(EstimateTracedTest, EachNodeHasATime) {
  const Predictor a100 = Of("a100-sxm4-80gb");
  const double times[] = {1, 2};
  EXPECT_THAT(MessageOf(EstimateTraced(a100, a100, Traced(), times, {}, kReplayed).status()),
              HasSubstr("2 traced times of 4 nodes"));
}

}  // namespace
}  // namespace gpueta
