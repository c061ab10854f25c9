#include "core/graph/passes/traced_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// A step at batch 4 with 8 tokens a sequence: 32 tokens.
constexpr std::int64_t kTraced = 4, kTokens = 32, kIn = 64, kOut = 48;

void Add(Graph& graph, Work work, std::string source_op = "aten::mm") {
  GraphNode node;
  node.kernel.name = "n";
  node.kernel.work = std::move(work);
  node.source_op = std::move(source_op);
  graph.nodes.push_back(std::move(node));
}

Graph Step() {
  Graph graph;
  Add(graph, Gemm{.m = kTokens, .n = kOut, .k = kIn});
  Add(graph, Vector{.op = "relu", .rows = kTokens, .cols = kOut});
  Add(graph, Gemm{.m = kTokens, .n = kIn, .k = kOut});  // the input's gradient
  Add(graph, Gemm{.m = kOut, .n = kIn, .k = kTokens});  // the weight's
  Add(graph, Vector{.op = "add", .rows = kOut, .cols = kIn});
  Add(graph, Gemm{.layer = Gemm::Layer::kBmm, .batch = 4 * 2, .m = 8, .n = 8, .k = 16});
  Add(graph, Attention{.batch = 4, .query_len = 8, .kv_len = 8, .heads = 2, .kv_heads = 2, .head_dim = 16});
  Add(graph,
      Conv2d{.batch = 4, .in_channels = 3, .height = 8, .width = 8, .out_channels = 8, .kernel_h = 3, .kernel_w = 3});
  Add(graph, Custom{.op = "mine", .flops = 0, .bytes = 1000}, "mine::fused");
  Add(graph, Custom{.op = "adam", .flops = 0, .bytes = 1000}, "aten::_foreach_add_");
  return graph;
}

TEST(MakeBatchSymbolicTest, WhatGrowsWithTheBatchDoesAndParametersDoNot) {
  Graph graph = Step();
  ASSERT_EQ(MakeBatchSymbolic(graph, kTraced), absl::OkStatus());
  const std::vector<Kernel> before = *Bind(Step(), {}), same = *Bind(graph, {}), twice = *Bind(graph, {{"batch", 8}});
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(same[i].work, before[i].work) << i;
  const auto gemm = [&](std::size_t i) { return std::get<Gemm>(twice[i].work); };
  EXPECT_EQ(gemm(0), (Gemm{.m = 2 * kTokens, .n = kOut, .k = kIn}));
  EXPECT_EQ(gemm(2), (Gemm{.m = 2 * kTokens, .n = kIn, .k = kOut}));
  EXPECT_EQ(gemm(3), (Gemm{.m = kOut, .n = kIn, .k = 2 * kTokens}));
  EXPECT_EQ(gemm(5).batch, 16);
  EXPECT_EQ(CountsOf(twice[1]).bytes().value(), 2 * CountsOf(before[1]).bytes().value());
  EXPECT_EQ(twice[4].work, before[4].work);  // a weight's own gradient is added up
  EXPECT_EQ(std::get<Attention>(twice[6].work).batch, 8);
  EXPECT_EQ(std::get<Conv2d>(twice[7].work).batch, 8);
  EXPECT_EQ(std::get<Custom>(twice[8].work).bytes, 2000);
  EXPECT_EQ(std::get<Custom>(twice[9].work).bytes, 1000);
  EXPECT_THAT(graph.warnings, Contains(HasSubstr("of 10 kernels 2 do not grow")));
}

TEST(MakeBatchSymbolicTest, NeedsABatchAndAGraphWithoutSymbols) {
  Graph graph = Step();
  EXPECT_TRUE(absl::IsInvalidArgument(MakeBatchSymbolic(graph, 0)));
  ASSERT_EQ(MakeBatchSymbolic(graph, kTraced), absl::OkStatus());
  EXPECT_THAT(MessageOf(MakeBatchSymbolic(graph, kTraced)), HasSubstr("has symbols"));
  Graph other;
  GraphNode product;
  product.kernel.work = Gemm{.m = 8, .n = 8, .k = 8};
  other.nodes.push_back(product);
  EXPECT_THAT(MessageOf(MakeBatchSymbolic(other, 7)), HasSubstr("no kernel has a dim that 7 divides"));
}

}  // namespace
}  // namespace gpueta
