#include "core/predict/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/base/errors.h"
#include "core/predict/compose.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GraphNode Node(std::string name, Work work, int layer = -1, std::vector<int> inputs = {}) {
  GraphNode node;
  node.kernel = {.name = std::move(name), .dtype = DType::kFp32, .work = std::move(work), .launch = {}};
  node.layer = layer;
  node.inputs = std::move(inputs);
  return node;
}

std::vector<Kernel> KernelsOf(const Graph& graph) {
  std::vector<Kernel> kernels;
  for (const GraphNode& node : graph.nodes) kernels.push_back(node.kernel);
  return kernels;
}

// Products take 10 µs and are bound by arithmetic, anything else 1 µs.
absl::StatusOr<Estimate> ByOp(const Kernel& kernel) {
  Estimate e;
  const double us = kernel.op() == Op::kGemm ? 10 : 1;
  e.latency_us = {us, us, us};
  e.bound = kernel.op() == Op::kGemm ? Bound::kCompute : Bound::kMemory;
  return e;
}

const Gemm kProduct{.m = 8, .n = 8, .k = 8};
const Vector kRelu{.op = "relu", .rows = 8, .cols = 8};

std::vector<std::string> NamesOf(const std::vector<TimeShare>& shares) {
  std::vector<std::string> names;
  for (const TimeShare& share : shares) names.push_back(share.name);
  return names;
}

double SumOf(const std::vector<TimeShare>& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0.0,
                         [](double sum, const TimeShare& share) { return sum + share.us; });
}

TEST(SharesTest, KindsAreNamedAsPeopleDo) {
  const auto kind = [](Work work) { return KindOf(Kernel{.name = "mine", .work = std::move(work)}); };
  EXPECT_EQ(kind(kProduct), "gemm");
  EXPECT_EQ(kind(kRelu), "vector relu");
  EXPECT_EQ(kind(Attention{.phase = Attention::Phase::kDecode}), "attention decode");
  EXPECT_EQ(kind(Collective{.op = "all_reduce"}), "collective all_reduce");
  EXPECT_EQ(kind(Custom{.op = "x"}), "custom mine");
}

TEST(SharesTest, AKindHasTheTimeOfItsKernelsAndTheBoundOfMostOfIt) {
  Graph graph;
  graph.nodes = {Node("a", kProduct), Node("b", kRelu), Node("c", Gemm{.m = 9, .n = 8, .k = 8}), Node("d", kRelu)};
  const GraphEstimate estimate = *ComposeGraph(graph, KernelsOf(graph), {}, ByOp);
  const std::vector<TimeShare> kinds = SharesByKind(estimate);
  ASSERT_THAT(NamesOf(kinds), ElementsAre("gemm", "vector relu"));
  EXPECT_DOUBLE_EQ(kinds[0].us, 20);
  EXPECT_EQ(kinds[0].count, 2);
  EXPECT_EQ(kinds[0].bound, Bound::kCompute);
  EXPECT_DOUBLE_EQ(kinds[1].us, 2);
  EXPECT_EQ(kinds[1].bound, Bound::kMemory);
}

TEST(SharesTest, LayersAreFoundByNumberPathOrName) {
  EXPECT_EQ(LayerOf(Node("layers.1.query", kProduct, 1)), "layers.1");
  EXPECT_EQ(LayerOf(Node("decoder.layers.12.query.input_gradient", kProduct, 12)), "decoder.layers.12");
  EXPECT_EQ(LayerOf(Node("/features/conv0/Conv.batch_norm", kRelu)), "/features/conv0");
  EXPECT_EQ(LayerOf(Node("node_conv_7.bias", kRelu)), "node_conv_7");
  EXPECT_EQ(LayerOf(Node("node_conv_7", kRelu, 3)), "layer 3");
  EXPECT_EQ(LayerOf(Node("", kRelu)), "vector");
}

TEST(SharesTest, LayersRunInOrderAndAddUpToTheKernels) {
  Graph graph;
  graph.nodes = {Node("tokens", kRelu), Node("layers.0.up", kProduct, 0, {0}), Node("layers.0.act", kRelu, 0, {1}),
                 Node("layers.1.up", kProduct, 1, {2}), Node("layers.1.act", kRelu, 1, {3})};
  const std::vector<Kernel> kernels = KernelsOf(graph);
  const GraphEstimate estimate = *ComposeGraph(graph, kernels, {.gap_us = 1}, ByOp);
  const std::vector<TimeShare> layers = *SharesByLayer(graph, kernels, estimate);
  ASSERT_THAT(NamesOf(layers), ElementsAre("tokens", "layers.0", "layers.1"));
  EXPECT_DOUBLE_EQ(layers[0].us, 1);
  EXPECT_DOUBLE_EQ(layers[1].us, 11);
  EXPECT_EQ(layers[1].count, 2);
  EXPECT_EQ(layers[1].bound, Bound::kCompute);
  EXPECT_DOUBLE_EQ(SumOf(layers), estimate.time.kernels_us);
}

// Two layers exchange as much; the exchange of the first hides behind the
// second's work.
TEST(SharesTest, WhatHidesBehindOtherKernelsIsNoTimeOfItsLayer) {
  const Collective exchange{.op = "all_reduce", .backend = "nccl-tests", .bytes = 1 << 20, .ranks = 2};
  Graph graph;
  graph.nodes = {Node("layers.0.up", kProduct, 0), Node("layers.0.exchange", exchange, 0, {0}),
                 Node("layers.1.up", kProduct, 1, {0}), Node("layers.1.exchange", exchange, 1, {2})};
  graph.nodes[1].stream = graph.nodes[3].stream = DeviceStream::kCommunication;
  const std::vector<Kernel> kernels = KernelsOf(graph);
  const GraphEstimate estimate = *ComposeGraph(graph, kernels, {}, ByOp);
  const std::vector<TimeShare> layers = *SharesByLayer(graph, kernels, estimate);
  ASSERT_THAT(NamesOf(layers), ElementsAre("layers.0", "layers.1"));
  EXPECT_DOUBLE_EQ(layers[0].us, 10);
  EXPECT_EQ(layers[0].hidden, 1);
  EXPECT_DOUBLE_EQ(layers[1].us, 11);
  EXPECT_EQ(layers[1].hidden, 0);
  EXPECT_DOUBLE_EQ(SumOf(layers), estimate.time.kernels_us);
}

TEST(SharesTest, AnEstimateOfOtherKernelsIsAnError) {
  Graph graph;
  graph.nodes = {Node("a", kProduct)};
  const GraphEstimate estimate = *ComposeGraph(graph, KernelsOf(graph), {}, ByOp);
  graph.nodes = {Node("a", kRelu)};
  EXPECT_THAT(MessageOf(SharesByLayer(graph, KernelsOf(graph), estimate).status()), HasSubstr("no kernel vector"));
}

}  // namespace
}  // namespace gpueta
