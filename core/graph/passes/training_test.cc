#include "core/graph/passes/training.h"

#include <gtest/gtest.h>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

Graph One(Work work, std::int64_t parameters = 0) {
  Graph graph;
  GraphNode node;
  node.kernel.name = "n";
  node.kernel.work = std::move(work);
  node.parameters = parameters;
  graph.nodes.push_back(std::move(node));
  return graph;
}

std::int64_t Macs(const Graph& graph) {
  EXPECT_TRUE(Validate(graph).ok());
  const auto counts = CountsOf(graph, {});
  EXPECT_TRUE(counts.ok());
  return counts.ok() ? counts->macs : -1;
}

TEST(AddBackwardTest, ProductsCostTwiceTheirForward) {
  for (const Work& work : std::vector<Work>{
           Gemm{.layer = Gemm::Layer::kLinear, .m = 8, .n = 32, .k = 16}, Gemm{.batch = 4, .m = 8, .n = 32, .k = 16},
           Moe{.num_tokens = 16, .hidden_size = 64, .inter_size = 32, .top_k = 2, .num_experts = 8}}) {
    Graph graph = One(work);
    const std::int64_t forward = Macs(graph);
    AddBackward(graph);
    EXPECT_EQ(Macs(graph), 3 * forward);
  }
}

TEST(AddBackwardTest, ConvolutionsHaveTwoGradientsButForTheModelsInput) {
  const Conv2d conv = {
      .batch = 2, .in_channels = 4, .height = 8, .width = 8, .out_channels = 4, .kernel_h = 3, .kernel_w = 3};
  Graph graph = One(conv);
  const std::int64_t forward = Macs(graph);
  graph.nodes.push_back(graph.nodes.front());
  graph.nodes.back().inputs = {0};
  AddBackward(graph);
  EXPECT_EQ(Macs(graph), (2 + 3) * forward);
}

std::vector<Gradient> GradientsOf(const Work& work) {
  Graph graph = One(work);
  graph.nodes.push_back(graph.nodes.front());
  graph.nodes.back().inputs = {0};
  graph.nodes.back().kernel.name = "m";
  AddBackward(graph);
  std::vector<Gradient> gradients;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].turn == Turn::kBackward) gradients.push_back(GradientOf(graph, i));
  }
  EXPECT_EQ(GradientOf(graph, 0), Gradient::kNone);
  return gradients;
}

// What a device runs for them is not the forward kernel of their shape.
TEST(AddBackwardTest, GradientsOfTheForwardKernelsShapeSayWhichTheyAre) {
  using enum Gradient;
  EXPECT_EQ(
      GradientsOf(Conv2d{
          .batch = 2, .in_channels = 4, .height = 8, .width = 8, .out_channels = 4, .kernel_h = 3, .kernel_w = 3}),
      (std::vector{kInput, kWeights, kWeights}));
  EXPECT_EQ(GradientsOf(Attention{.query_len = 8, .kv_len = 8, .heads = 4, .kv_heads = 4, .head_dim = 8}),
            (std::vector{kAll, kPart, kPart, kAll, kPart, kPart}));
  EXPECT_EQ(GradientsOf(Gemm{.m = 8, .n = 8, .k = 8}), std::vector(4, kNone));
}

TEST(AddBackwardTest, GradientsOfAProductHaveTheShapesOfInputAndWeight) {
  Graph graph = One(Gemm{.layer = Gemm::Layer::kLinear, .m = 8, .n = 32, .k = 16}, 32 * 16 + 32);
  AddBackward(graph);
  ASSERT_EQ(graph.nodes.size(), 4U);
  EXPECT_EQ(DimOf(graph.nodes[1], "m"), SymInt(8));
  EXPECT_EQ(DimOf(graph.nodes[1], "n"), SymInt(16));
  EXPECT_EQ(DimOf(graph.nodes[2], "m"), SymInt(16));
  EXPECT_EQ(DimOf(graph.nodes[2], "n"), SymInt(32));
  EXPECT_EQ(std::get<Vector>(graph.nodes[3].kernel.work).op, "reduce");
}

TEST(AddBackwardTest, AttentionRecomputesItsScores) {
  Graph graph = One(Attention{.batch = 2, .query_len = 8, .kv_len = 8, .heads = 4, .kv_heads = 2, .head_dim = 8});
  const std::int64_t forward = Macs(graph);
  AddBackward(graph);
  EXPECT_EQ(2 * Macs(graph), 7 * forward);  // five products for two
}

TEST(AddBackwardTest, GradientsOfAnOutputReadTwiceAddUp) {
  Graph graph = One(Vector{.op = "gelu", .rows = 8, .cols = 8});
  for (int i = 0; i < 2; ++i) {
    GraphNode reader;
    reader.kernel.work = Vector{.op = "add", .rows = 8, .cols = 8};
    reader.inputs = {0};
    graph.nodes.push_back(reader);
  }
  AddBackward(graph);
  ASSERT_EQ(graph.nodes.size(), 5U);
  EXPECT_EQ(std::get<Vector>(graph.nodes[3].kernel.work).op, "add");
  EXPECT_EQ(DimOf(graph.nodes[3], "operands"), SymInt(2));
}

TEST(AddBackwardTest, GradientsOfPartsArePutSideBySide) {
  Graph graph = One(Vector{.op = "gelu", .rows = 8, .cols = 8});
  for (int i = 0; i < 2; ++i) {
    GraphNode reader;
    reader.kernel.work = Vector{.op = "add", .rows = 8, .cols = 4};
    reader.inputs = {0};
    graph.nodes.push_back(reader);
  }
  AddBackward(graph);
  ASSERT_EQ(graph.nodes.size(), 5U);
  EXPECT_EQ(std::get<Vector>(graph.nodes[3].kernel.work).op, "copy");
}

TEST(AddBackwardTest, WhatAGradientNeedsIsKeptUntilThen) {
  Graph graph = One(Vector{.op = "gelu", .rows = 8, .cols = 8});
  GraphNode product;
  product.kernel.work = Gemm{.layer = Gemm::Layer::kLinear, .m = 8, .n = 8, .k = 8};
  product.inputs = {0};
  graph.nodes.push_back(product);
  AddBackward(graph);
  EXPECT_EQ(graph.nodes[3].inputs.front(), 0);  // the weight's gradient reads the product's input
}

TEST(AddBackwardTest, ViewsHaveNoGradientKernel) {
  Graph graph = One(Vector{.op = "view", .rows = 8, .cols = 8});
  graph.nodes[0].costing = Costing::kFree;
  AddBackward(graph);
  EXPECT_EQ(graph.nodes.size(), 1U);
}

TEST(AccumulateGradientsTest, AddsEachGradientAsItIsCompleteAndClearsOnceAStep) {
  Graph graph = One(Gemm{.layer = Gemm::Layer::kLinear, .m = 8, .n = 16, .k = 16}, 16 * 16);
  GraphNode norm;
  norm.kernel.name = "norm";
  norm.kernel.work = Vector{.op = "layernorm", .rows = 8, .cols = 16};
  norm.parameters = 2 * 16;
  norm.inputs = {0};
  graph.nodes.push_back(norm);
  AddBackward(graph);
  AccumulateGradients(graph);
  ASSERT_TRUE(Validate(graph).ok());
  std::vector<std::int64_t> added, cleared, complete;
  for (const GraphNode& node : graph.nodes) {
    const auto* vector = std::get_if<Vector>(&node.kernel.work);
    if (node.gradients > 0) complete.push_back(node.gradients);
    if (vector == nullptr) continue;
    if (vector->op == "accumulate_gradient") added.push_back(vector->cols);
    if (vector->op == "clear_gradient") {
      cleared.push_back(vector->cols);
      EXPECT_EQ(node.turn, Turn::kStep);
    }
  }
  EXPECT_EQ(added, (std::vector<std::int64_t>{16, 16, 16 * 16}));  // scale and shift, then the product's
  EXPECT_EQ(cleared, added);
  EXPECT_EQ(complete, (std::vector<std::int64_t>{2 * 16, 16 * 16}));
  EXPECT_EQ(std::get<Vector>(graph.nodes.back().kernel.work).op, "clear_gradient");
}

// Two layers of a product and an activation.
Graph TwoLayers() {
  Graph graph;
  for (int i = 0; i < 4; ++i) {
    GraphNode node;
    node.kernel.name = "n";
    if (i % 2 == 0) {
      node.kernel.work = Gemm{.layer = Gemm::Layer::kLinear, .m = 8, .n = 16, .k = 16};
    } else {
      node.kernel.work = Vector{.op = "gelu", .rows = 8, .cols = 16};
    }
    node.layer = i / 2;
    if (i > 0) node.inputs = {i - 1};
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

TEST(RecomputeLayersTest, ForwardKernelsRunAgainAndOnlyLayersInputsAreKept) {
  Graph graph = TwoLayers();
  const std::int64_t forward = Macs(graph);
  AddBackward(graph);
  const std::int64_t kept = Macs(graph);
  ASSERT_TRUE(RecomputeLayers(graph).ok());
  EXPECT_EQ(Macs(graph), kept + forward);
  // What gradients read of the first pass are the inputs of layers.
  for (const GraphNode& node : graph.nodes) {
    if (node.turn != Turn::kBackward) continue;
    for (const int input : node.inputs) {
      if (graph.nodes[static_cast<std::size_t>(input)].turn == Turn::kForward) {
        EXPECT_EQ(input, 1) << node.kernel.name;
      }
    }
  }
}

TEST(RecomputeLayersTest, AGraphWithoutLayersIsRefused) {
  Graph graph = One(Gemm{.m = 8, .n = 8, .k = 8});
  AddBackward(graph);
  EXPECT_TRUE(absl::IsInvalidArgument(RecomputeLayers(graph)));
}

TEST(AddOptimiserStepTest, AdamMovesParametersGradientAndTwoStates) {
  Graph graph = One(Gemm{.m = 8, .n = 1024, .k = 1024});
  graph.parameters = 1024 * 1024;
  graph.parameter_bytes = 4 * graph.parameters;
  AddOptimiserStep(graph, Optimiser::kAdamW);
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.optimiser_bytes, 2 * 4 * graph.parameters);
  EXPECT_EQ(CountsOf(graph.nodes[1].kernel).bytes().value(), 7 * 4 * 1024 * 1024);
}

TEST(AddOptimiserStepTest, ParametersOf16BitsKeepACopyInFp32) {
  for (const auto& [optimiser, each] : {std::pair(Optimiser::kAdam, 12), std::pair(Optimiser::kSgd, 4)}) {
    Graph graph = One(Gemm{.m = 8, .n = 1024, .k = 1024});
    graph.parameters = 1024 * 1024;
    graph.parameter_bytes = 2 * graph.parameters;
    AddOptimiserStep(graph, optimiser);
    EXPECT_EQ(graph.optimiser_bytes, each * graph.parameters);
  }
}

TEST(AddOptimiserStepTest, NamesAreParsed) {
  EXPECT_EQ(ParseOptimiser("sgd"), Optimiser::kSgd);
  EXPECT_EQ(ParseOptimiser("none"), Optimiser::kNone);
  EXPECT_FALSE(ParseOptimiser("lion").has_value());
}

}  // namespace
}  // namespace gpueta
