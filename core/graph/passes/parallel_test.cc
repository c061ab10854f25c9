#include "core/graph/passes/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

GraphNode Split(GraphNode node, enum Split split, int layer) {
  node.split = split;
  node.layer = layer;
  return node;
}

// Two layers of up, activation, down; logits behind them.
Graph Layers() {
  Graph graph;
  graph.parameters = 2 * 2 * 64 * 256 + 64 * 100;
  graph.parameter_bytes = 4 * graph.parameters;
  const auto add = [&](Work work, enum Split split, int layer, std::int64_t parameters) {
    GraphNode node;
    node.kernel.name = "n";
    node.kernel.work = std::move(work);
    if (!graph.nodes.empty()) node.inputs = {static_cast<int>(graph.nodes.size()) - 1};
    node.parameters = parameters;
    graph.nodes.push_back(Split(std::move(node), split, layer));
  };
  for (int layer = 0; layer < 2; ++layer) {
    add(Gemm{.m = 8, .n = 256, .k = 64}, Split::kColumns, layer, 64 * 256);
    add(Vector{.op = "relu", .rows = 8, .cols = 256}, Split::kColumns, layer, 0);
    add(Gemm{.m = 8, .n = 64, .k = 256}, Split::kRows, layer, 64 * 256);
  }
  add(Gemm{.m = 8, .n = 100, .k = 64}, Split::kColumns, -1, 64 * 100);
  return graph;
}

std::vector<Collective> CollectivesOf(const Graph& graph) {
  std::vector<Collective> found;
  for (const GraphNode& node : graph.nodes) {
    if (const auto* collective = std::get_if<Collective>(&node.kernel.work)) found.push_back(*collective);
  }
  return found;
}

TEST(SplitTensorsTest, EachRankDoesItsShareAndSumsAreAddedUp) {
  Graph graph = Layers();
  const std::int64_t macs = CountsOf(graph, {})->macs;
  const std::int64_t bytes = graph.parameter_bytes;
  ASSERT_TRUE(SplitTensors(graph, {.tensor = 4}).ok());
  ASSERT_TRUE(Validate(graph).ok());
  EXPECT_EQ(CountsOf(graph, {})->macs * 4, macs);
  EXPECT_EQ(graph.parameter_bytes * 4, bytes);
  const std::vector<Collective> collectives = CollectivesOf(graph);
  ASSERT_EQ(collectives.size(), 3U);
  EXPECT_EQ(collectives[0].op, "all_reduce");
  EXPECT_EQ(collectives[0].bytes, 8 * 64 * 4);
  EXPECT_EQ(collectives[0].ranks, 4);
  EXPECT_EQ(collectives[2].op, "all_gather");
  EXPECT_EQ(collectives[2].bytes, 8 * 100 * 4);
}

// As Layers, with a norm in front of each layer and of the logits.
Graph LayersWithNorms() {
  const Graph plain = Layers();
  Graph graph;
  const auto append = [&](GraphNode node) {
    if (!graph.nodes.empty()) node.inputs = {static_cast<int>(graph.nodes.size()) - 1};
    graph.nodes.push_back(std::move(node));
  };
  for (std::size_t i = 0; i < plain.nodes.size(); ++i) {
    if (i % 3 == 0) {
      GraphNode norm;
      norm.kernel.work = Vector{.op = "rmsnorm", .rows = 8, .cols = 64};
      norm.layer = plain.nodes[i].layer;
      append(std::move(norm));
    }
    append(plain.nodes[i]);
  }
  return graph;
}

TEST(SplitTensorsTest, RanksExchangeActivationsWhateverTheWeightsAre) {
  for (const DType dtype : {DType::kFp8, DType::kInt8, DType::kInt4, DType::kBf16}) {
    Graph graph = Layers();
    for (GraphNode& node : graph.nodes) node.kernel.dtype = dtype;
    ASSERT_TRUE(SplitTensors(graph, {.tensor = 2}).ok());
    const auto sum = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [](const GraphNode& node) { return node.kernel.op() == Op::kCollective; });
    ASSERT_NE(sum, graph.nodes.end());
    EXPECT_EQ(sum->kernel.dtype, DType::kBf16) << Name(dtype);
    EXPECT_EQ(std::get<Collective>(sum->kernel.work).bytes, 8 * 64 * 2) << Name(dtype);
  }
}

TEST(SplitTensorsTest, SequenceParallelismDividesNormsAndMovesTheSameBytes) {
  Graph whole = LayersWithNorms();
  Graph divided = LayersWithNorms();
  ASSERT_TRUE(SplitTensors(whole, {.tensor = 4}).ok());
  ASSERT_TRUE(SplitTensors(divided, {.tensor = 4}, true).ok());
  ASSERT_TRUE(Validate(divided).ok());
  EXPECT_EQ(CountsOf(divided, {})->macs, CountsOf(whole, {})->macs);
  const auto bus_bytes = [](const Graph& graph) {
    double bytes = 0;
    for (const Collective& collective : CollectivesOf(graph)) bytes += BusBytes(collective);
    return bytes;
  };
  // Besides, the first norm's output is gathered: nothing was reduced in front of it.
  EXPECT_DOUBLE_EQ(bus_bytes(divided), bus_bytes(whole) + 0.75 * 8 * 64 * 4);
  for (const GraphNode& node : divided.nodes) {
    const auto* vector = std::get_if<Vector>(&node.kernel.work);
    if (vector != nullptr && vector->op == "rmsnorm") {
      EXPECT_EQ(vector->rows, 2);
    }
    if (vector == nullptr && node.split == Split::kColumns) {
      const Kernel& read = divided.nodes[static_cast<std::size_t>(node.inputs.front())].kernel;
      EXPECT_EQ(std::get<Collective>(read.work).op, "all_gather");
    }
  }
}

TEST(SplitTensorsTest, OneRankChangesNothing) {
  Graph graph = Layers();
  ASSERT_TRUE(SplitTensors(graph, {}).ok());
  EXPECT_EQ(HashOf(graph), HashOf(Layers()));
}

TEST(SplitTensorsTest, HeadsThatDoNotDivideAreRefused) {
  Graph graph = Layers();
  GraphNode attention;
  attention.kernel.work = Attention{.query_len = 8, .kv_len = 8, .heads = 6, .kv_heads = 2, .head_dim = 8};
  graph.nodes.push_back(Split(attention, Split::kHeads, 1));
  EXPECT_THAT(SplitTensors(graph, {.tensor = 4}).ToString(), HasSubstr("does not divide the 6 attention heads"));
}

TEST(SplitTensorsTest, AGraphThatDoesNotSayHowItSplitsIsRefused) {
  Graph graph = Layers();
  for (GraphNode& node : graph.nodes) node.split = Split::kWhole;
  EXPECT_TRUE(absl::IsInvalidArgument(SplitTensors(graph, {.tensor = 2})));
}

TEST(SplitTensorsTest, ExpertsOnManyRanksExchangeTokens) {
  Graph graph;
  GraphNode moe;
  moe.kernel.work = Moe{.num_tokens = 16, .hidden_size = 64, .inter_size = 32, .top_k = 2, .num_experts = 8};
  graph.nodes = {Split(moe, Split::kExperts, 0)};
  ASSERT_TRUE(SplitTensors(graph, {.expert = 8}).ok());
  ASSERT_TRUE(Validate(graph).ok());
  EXPECT_EQ(std::get<Moe>(graph.nodes[1].kernel.work).ep, 8);
  const std::vector<Collective> collectives = CollectivesOf(graph);
  ASSERT_EQ(collectives.size(), 2U);
  EXPECT_EQ(collectives[0].op, "alltoall");
  EXPECT_EQ(collectives[0].bytes, 16 * 2 * 64 * 4);
}

TEST(SplitStagesTest, ActivationsPassBetweenStages) {
  Graph graph = Layers();
  const std::int64_t macs = CountsOf(graph, {})->macs;
  ASSERT_TRUE(SplitStages(graph, 2).ok());
  ASSERT_TRUE(Validate(graph).ok());
  EXPECT_EQ(CountsOf(graph, {})->macs, macs);
  const std::vector<Collective> collectives = CollectivesOf(graph);
  ASSERT_EQ(collectives.size(), 1U);
  EXPECT_EQ(collectives[0].op, "send_recv");
  EXPECT_EQ(collectives[0].bytes, 8 * 64 * 4);
}

TEST(SplitStagesTest, MoreStagesThanLayersAreRefused) {
  Graph graph = Layers();
  EXPECT_TRUE(absl::IsInvalidArgument(SplitStages(graph, 3)));
}

}  // namespace
}  // namespace gpueta
