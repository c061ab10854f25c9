#include "core/graph/passes/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/base/errors.h"
#include "core/graph/passes/parallel.h"
#include "core/graph/passes/rewriter.h"
#include "core/graph/passes/training.h"

namespace gpueta {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kWidth = 64, kInner = 256;

void Add(Graph& graph, Work work, std::vector<int> inputs, Costing costing = Costing::kKernel) {
  GraphNode node;
  node.kernel.name = "n";
  node.kernel.work = std::move(work);
  node.inputs = std::move(inputs);
  node.costing = costing;
  SetDimOf(node, node.kernel.op() == Op::kGemm ? "m" : "rows", SymInt::Symbol("batch"));
  if (node.kernel.op() == Op::kGemm) node.parameters = kWidth * kInner;
  graph.nodes.push_back(std::move(node));
}

// Blocks of up, view, relu, down and a sum with the block's input, behind a mask
// that all of them read. The narrow places are those in front of blocks.
constexpr int kBlock = 5;
Graph Residual(int blocks) {
  Graph graph;
  graph.symbols = {{"batch", 0}};
  graph.parameters = 2 * blocks * kWidth * kInner;
  graph.parameter_bytes = 4 * graph.parameters;
  Add(graph, Vector{.op = "copy", .cols = 1}, {});       // the mask
  Add(graph, Vector{.op = "copy", .cols = kWidth}, {});  // the input
  for (int block = 0; block < blocks; ++block) {
    const int in = static_cast<int>(graph.nodes.size()) - 1;
    Add(graph, Gemm{.n = kInner, .k = kWidth}, {in});
    Add(graph, Vector{.op = "copy", .cols = kInner}, {in + 1}, Costing::kFree);
    Add(graph, Vector{.op = "relu", .cols = kInner}, {0, in + 2});
    Add(graph, Gemm{.n = kWidth, .k = kInner}, {in + 3});
    Add(graph, Vector{.op = "add", .cols = kWidth, .operands = 2}, {in, in + 4});
  }
  return graph;
}

TEST(BalancedCutsTest, PartsAreEvenAndCutWhereLittlePasses) {
  EXPECT_THAT(*BalancedCuts(Residual(8), 4), ElementsAre(2 + 2 * kBlock, 2 + 4 * kBlock, 2 + 6 * kBlock));
  // Eight blocks make no three even parts: still in front of blocks, not within.
  EXPECT_THAT(*BalancedCuts(Residual(8), 3), ElementsAre(2 + 3 * kBlock, 2 + 5 * kBlock));
}

TEST(BalancedCutsTest, EachPartRunsSomething) {
  Graph graph = Residual(1);  // five kernels beside one that is a view
  ASSERT_TRUE(BalancedCuts(graph, 6).ok());
  const std::vector<std::size_t> cuts = *BalancedCuts(graph, 6);
  EXPECT_TRUE(std::ranges::is_sorted(cuts, std::less_equal<>()));
  EXPECT_THAT(MessageOf(BalancedCuts(graph, 7).status()), HasSubstr("only 6 kernels"));
  // One kernel with nearly all of the work, first or last.
  for (const std::size_t heavy : {std::size_t{2}, std::size_t{5}}) {
    Graph uneven = Residual(1);
    SetDimOf(uneven.nodes[heavy], "n", 1 << 20);
    const std::vector<std::size_t> found = *BalancedCuts(uneven, 3);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_LT(found[0], found[1]);
  }
}

TEST(CrossingAtTest, WhatIsReadThroughViewsPassesAndConstantsDoNot) {
  Graph graph = Residual(2);
  EXPECT_THAT(CrossingAt(graph, 2 + kBlock), ElementsAre(0, 1 + kBlock));
  EXPECT_THAT(CrossingAt(graph, 4), ElementsAre(0, 1, 2, 3));  // the product, by its view
  Add(graph, Vector{.op = "copy", .cols = 1}, {}, Costing::kFree);
  const int constant = static_cast<int>(graph.nodes.size()) - 1;
  Add(graph, Vector{.op = "relu", .cols = 1}, {constant});
  EXPECT_TRUE(CrossingAt(graph, static_cast<std::size_t>(constant) + 1).empty());
}

TEST(MarkLayersTest, AsManyAsTheRootOfTheProductsAndTheLastStaysWithout) {
  Graph graph = Residual(8);  // 16 products
  EXPECT_FALSE(HasLayers(graph));
  EXPECT_EQ(*MarkLayers(graph), 3);
  EXPECT_TRUE(HasLayers(graph));
  EXPECT_EQ(graph.nodes.front().layer, 0);
  EXPECT_EQ(graph.nodes[2 + 2 * kBlock].layer, 1);
  EXPECT_EQ(graph.nodes.back().layer, -1);
}

// The stages of any graph are those of a pipeline, and its layers computed again
// keep less.
TEST(SplitStagesTest, AGraphWithoutLayersIsCutByWork) {
  Graph graph = Residual(8);
  const std::int64_t macs = CountsOf(graph, {{"batch", 4}})->macs;
  ASSERT_TRUE(SplitStages(graph, 4).ok());
  ASSERT_TRUE(Validate(graph).ok());
  EXPECT_EQ(StagesOf(graph), 4);
  EXPECT_EQ(graph.parameter_bytes * 4, 4 * 2 * 8 * kWidth * kInner);
  std::int64_t by_stage[4] = {};
  int sends = 0;
  const std::vector<Kernel> kernels = *Bind(graph, {{"batch", 4}});
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    by_stage[node.stage] += MacsOf(kernels[i], CountsOf(kernels[i])).value();
    if (const auto* send = std::get_if<Collective>(&kernels[i].work)) {
      ++sends;
      EXPECT_EQ(send->op, "send_recv");
      EXPECT_EQ(send->bytes, 4 * 4 * (kWidth + 1));  // the sum and the mask
    }
    // Nothing reads across stages but what was sent.
    for (const int input : node.inputs) {
      const GraphNode& read = graph.nodes[static_cast<std::size_t>(input)];
      EXPECT_TRUE(read.stage == node.stage || read.kernel.op() == Op::kCollective) << i;
    }
  }
  EXPECT_EQ(sends, 3);
  EXPECT_THAT(by_stage, Each(macs / 4));
}

TEST(RecomputeLayersTest, MarkedLayersAreComputedAgainButTheLast) {
  Graph graph = Residual(8);
  const std::int64_t forward = CountsOf(graph, {{"batch", 4}})->macs;
  ASSERT_TRUE(MarkLayers(graph).ok());
  AddBackward(graph);
  const std::int64_t step = CountsOf(graph, {{"batch", 4}})->macs;
  ASSERT_TRUE(RecomputeLayers(graph).ok());
  ASSERT_TRUE(Validate(graph).ok());
  EXPECT_EQ(CountsOf(graph, {{"batch", 4}})->macs, step + forward * 3 / 4);
}

}  // namespace
}  // namespace gpueta
