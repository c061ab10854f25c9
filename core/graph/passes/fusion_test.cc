#include "core/graph/passes/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

GraphNode Node(Work work, std::vector<int> inputs) {
  GraphNode node;
  node.kernel.name = "n";
  node.kernel.work = std::move(work);
  node.inputs = std::move(inputs);
  return node;
}
GraphNode Over(std::string op, std::vector<int> inputs, std::int64_t rows = 64, std::int64_t cols = 32,
               std::int64_t operands = 1) {
  return Node(Vector{.op = std::move(op), .rows = rows, .cols = cols, .operands = operands}, std::move(inputs));
}
GraphNode Product(std::int64_t m, std::int64_t n, std::int64_t k, std::vector<int> inputs) {
  GraphNode node = Node(Gemm{.layer = Gemm::Layer::kLinear, .m = m, .n = n, .k = k}, std::move(inputs));
  node.parameters = n * k;
  return node;
}

Graph Of(std::vector<GraphNode> nodes) {
  Graph graph;
  graph.nodes = std::move(nodes);
  EXPECT_TRUE(Validate(graph).ok());
  return graph;
}

std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const GraphNode& node : graph.nodes) {
    const auto* vector = std::get_if<Vector>(&node.kernel.work);
    ops.push_back(vector != nullptr ? vector->op : std::string(Name(node.kernel.op())));
  }
  return ops;
}

TEST(FuseElementwiseTest, ARunIsOnePassAtTheCostOfItsRowOperator) {
  Graph graph = Of({Product(64, 32, 32, {}), Over("mul", {0}), Over("add", {1}, 64, 32, 2), Over("layernorm", {2}),
                    Product(64, 32, 32, {3}), Over("relu", {4}), Over("add", {5, 2}, 64, 32, 2)});
  FuseElementwise(graph);
  EXPECT_TRUE(Validate(graph).ok());
  EXPECT_THAT(Ops(graph), ElementsAre("gemm", "layernorm", "gemm", "add"));
  EXPECT_THAT(graph.nodes[3].inputs, ElementsAre(1, 2));
  EXPECT_EQ(DimOf(graph.nodes[3], "operands"), SymInt(2));
}

TEST(FuseElementwiseTest, TheBiasInFrontOfElementwiseCodeGoesIntoIt) {
  const auto biased = [](std::vector<int> inputs) {
    GraphNode node = Product(64, 32, 32, std::move(inputs));
    node.parameters += 32;
    return node;
  };
  // Read by a pass; by a pass and a product; by nothing; without a bias.
  Graph graph = Of({biased({}), Over("gelu", {0}), biased({1}), Over("mul", {2}), Product(64, 32, 32, {2}),
                    Over("relu", {4}), biased({5})});
  FuseElementwise(graph);
  ASSERT_TRUE(Validate(graph).ok());
  std::vector<Gemm::Layer> layers;
  for (const GraphNode& node : graph.nodes) {
    if (const auto* gemm = std::get_if<Gemm>(&node.kernel.work)) layers.push_back(gemm->layer);
  }
  EXPECT_THAT(layers,
              ElementsAre(Gemm::Layer::kGemm, Gemm::Layer::kLinear, Gemm::Layer::kLinear, Gemm::Layer::kLinear));
}

TEST(FuseElementwiseTest, WhatReadsOneInputIsOnePassThatReadsItOnce) {
  // 0.5·x·(1 + tanh(c·(x + d·x³))), as gelu is written out.
  Graph graph = Of({Product(64, 32, 32, {}), Over("mul", {0}), Over("pow", {0}), Over("mul", {2}),
                    Over("add", {0, 3}, 64, 32, 2), Over("tanh", {4}), Over("mul", {1, 5}, 64, 32, 2)});
  FuseElementwise(graph);
  ASSERT_TRUE(Validate(graph).ok());
  ASSERT_THAT(Ops(graph), ElementsAre("gemm", "add"));
  EXPECT_THAT(graph.nodes[1].inputs, ElementsAre(0));
  EXPECT_EQ(DimOf(graph.nodes[1], "operands"), SymInt(1));
}

TEST(FuseElementwiseTest, WhatIsReadElsewhereIsWritten) {
  // x + y, read by a product, and its relu: two tensors in, two out.
  Graph graph = Of({Product(64, 32, 32, {}), Product(64, 32, 32, {}), Over("add", {0, 1}, 64, 32, 2), Over("relu", {2}),
                    Product(64, 32, 32, {2}), Product(64, 32, 32, {3})});
  FuseElementwise(graph);
  ASSERT_TRUE(Validate(graph).ok());
  ASSERT_THAT(Ops(graph), ElementsAre("gemm", "gemm", "add", "gemm", "gemm"));
  EXPECT_EQ(DimOf(graph.nodes[2], "operands"), SymInt(3));
}

TEST(FuseElementwiseTest, AMaskIsNoFullOperand) {
  Graph graph =
      Of({Product(1, 32, 8, {}), Product(64, 32, 32, {}), Over("where", {0, 1}), Over("mul", {1, 2}, 64, 32, 2)});
  FuseElementwise(graph);
  ASSERT_TRUE(Validate(graph).ok());
  ASSERT_THAT(Ops(graph), ElementsAre("gemm", "gemm", "add"));
  EXPECT_EQ(DimOf(graph.nodes[2], "operands"), SymInt(1));
}

TEST(FuseElementwiseTest, RowsThatAreReducedAndWrittenInFullAreNormalised) {
  // x + y, read elsewhere; its square, the mean of that, and x + y scaled by it.
  Graph graph = Of({Product(64, 32, 32, {}), Product(64, 32, 32, {}), Over("add", {0, 1}, 64, 32, 2), Over("pow", {2}),
                    Over("reduce", {3}), Over("rsqrt", {4}, 64, 1), Over("mul", {2, 5}), Product(64, 32, 32, {6}),
                    Product(64, 32, 32, {2})});
  FuseElementwise(graph);
  ASSERT_TRUE(Validate(graph).ok());
  ASSERT_THAT(Ops(graph), ElementsAre("gemm", "gemm", "rmsnorm", "gemm", "gemm"));
  EXPECT_EQ(DimOf(graph.nodes[2], "operands"), SymInt(3));  // two read, the sum and what is normalised written
}

TEST(FuseElementwiseTest, APassThatEndsInNarrowerElementsIsOneOfTheWiderOnes) {
  Graph graph = Of({Product(64, 32, 32, {}), Over("mul", {0}), Over("cast", {1}), Product(64, 32, 32, {2})});
  for (const std::size_t wide : {0, 1, 2}) graph.nodes[wide].kernel.dtype = DType::kFp32;
  graph.nodes[2].kernel.dtype = DType::kFp16;
  FuseElementwise(graph);
  ASSERT_THAT(Ops(graph), ElementsAre("gemm", "add", "gemm"));
  EXPECT_EQ(graph.nodes[1].kernel.dtype, DType::kFp32);
}

TEST(FuseElementwiseTest, ParametersThatAreAsLargeAreRead) {
  Graph graph = Of({Product(64, 32, 32, {}), Over("add", {0}, 64, 32, 2), Over("relu", {1}), Product(64, 32, 32, {2})});
  FuseElementwise(graph);
  ASSERT_THAT(Ops(graph), ElementsAre("gemm", "add", "gemm"));
  EXPECT_EQ(DimOf(graph.nodes[1], "operands"), SymInt(2));
}

TEST(FuseElementwiseTest, ForwardAndBackwardStayApart) {
  Graph graph = Of({Product(64, 32, 32, {}), Over("mul", {0}), Over("mul", {1})});
  graph.nodes[2].turn = Turn::kBackward;
  FuseElementwise(graph);
  EXPECT_THAT(graph.nodes, SizeIs(3));
}

TEST(FuseElementwiseTest, ReadersOfOneInputThatDifferInSizeStayApart) {
  Graph graph = Of({Product(64, 32, 32, {}), Over("mul", {0}), Over("mul", {0}, 32, 32)});
  FuseElementwise(graph);
  EXPECT_THAT(graph.nodes, SizeIs(3));
}

TEST(FuseElementwiseTest, UnrelatedNeighboursStayApart) {
  Graph graph = Of({Over("mul", {}), Over("mul", {})});
  FuseElementwise(graph);
  EXPECT_THAT(graph.nodes, SizeIs(2));
}

TEST(FuseEpiloguesTest, BiasAndActivationGoIntoTheProduct) {
  Graph graph = Of({Product(64, 32, 32, {}), Over("add", {0}), Over("gelu", {1}), Product(64, 8, 32, {2})});
  FuseEpilogues(graph);
  EXPECT_TRUE(Validate(graph).ok());
  EXPECT_THAT(Ops(graph), ElementsAre("gemm", "gemm"));
}

TEST(FuseEpiloguesTest, AProductThatIsReadTwiceKeepsItsOutput) {
  Graph graph = Of({Product(64, 32, 32, {}), Over("gelu", {0}), Over("mul", {0, 1}, 64, 32, 2)});
  FuseEpilogues(graph);
  EXPECT_THAT(graph.nodes, SizeIs(3));
}

TEST(FuseResidualNormsTest, TheNormWritesTheSum) {
  Graph graph = Of({Product(64, 32, 32, {}), Over("add", {0}, 64, 32, 2), Over("rmsnorm", {1}),
                    Product(64, 32, 32, {2}), Over("add", {1, 3}, 64, 32, 2)});
  FuseResidualNorms(graph);
  EXPECT_TRUE(Validate(graph).ok());
  EXPECT_THAT(Ops(graph), ElementsAre("gemm", "rmsnorm", "gemm", "add"));
  EXPECT_THAT(graph.nodes[3].inputs, ElementsAre(1, 2));
}

// 12 heads of a symbolic batch, 128 tokens of 64.
Graph WrittenOutAttention() {
  GraphNode scores = Node(Gemm{.layer = Gemm::Layer::kBmm, .m = 128, .n = 128, .k = 64}, {});
  GraphNode mask = Over("add", {0}, 1, 128);
  GraphNode softmax = Over("softmax", {1}, 1, 128);
  GraphNode context = Node(Gemm{.layer = Gemm::Layer::kBmm, .m = 128, .n = 64, .k = 128}, {2});
  const SymInt heads = SymInt(12) * SymInt::Symbol("batch");
  SetDimOf(scores, "batch", heads);
  SetDimOf(context, "batch", heads);
  SetDimOf(mask, "rows", heads * 128);
  SetDimOf(softmax, "rows", heads * 128);
  Graph graph;
  graph.symbols = {{"batch", 0}};
  graph.nodes = {scores, mask, softmax, context};
  return graph;
}

TEST(FuseAttentionTest, ProductsAroundASoftmaxBecomeAttentionOfTheSameSize) {
  Graph graph = WrittenOutAttention();
  const SymbolValues values = {{"batch", 3}};
  const std::int64_t before = CountsOf(graph, values)->macs;
  FuseAttention(graph);
  ASSERT_TRUE(Validate(graph).ok());
  ASSERT_THAT(Ops(graph), ElementsAre("attention"));
  EXPECT_EQ(DimOf(graph.nodes[0], "heads"), SymInt(12));
  EXPECT_EQ(CountsOf(graph, values)->macs, before);
}

TEST(FuseAttentionTest, WhatReadsTheScoresKeepsThem) {
  Graph graph = WrittenOutAttention();
  GraphNode other = graph.nodes[1];
  other.inputs = {2};
  graph.nodes.push_back(other);
  FuseAttention(graph);
  EXPECT_THAT(graph.nodes, SizeIs(5));
}

TEST(MergeProductsTest, ProductsOfOneInputStandSideBySide) {
  Graph graph = Of({Over("layernorm", {}), Product(64, 32, 32, {0}), Product(64, 16, 32, {0}),
                    Over("mul", {1, 2}, 64, 16, 2), Product(64, 16, 16, {3})});
  const std::int64_t before = CountsOf(graph, {})->macs;
  MergeProducts(graph);
  ASSERT_TRUE(Validate(graph).ok());
  EXPECT_THAT(Ops(graph), ElementsAre("layernorm", "gemm", "mul", "gemm"));
  EXPECT_EQ(DimOf(graph.nodes[1], "n"), SymInt(48));
  EXPECT_EQ(CountsOf(graph, {})->macs, before);
}

}  // namespace
}  // namespace gpueta
