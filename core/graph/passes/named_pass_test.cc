#include "core/graph/passes/named_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpueta {
namespace {

TEST(NamedPassTest, EachIsFoundByItsNameAndLeavesAnEmptyGraphAlone) {
  for (const NamedPass& pass : NamedPasses()) {
    ASSERT_EQ(FindPass(pass.name), &pass);
    Graph graph;
    pass.apply(graph);
    EXPECT_TRUE(graph.nodes.empty());
  }
  EXPECT_EQ(FindPass("fuse-everything"), nullptr);
}

TEST(NamedPassTest, ABatchNormIsRestoredByName) {
  Graph graph;
  graph.nodes.resize(2);
  graph.nodes[0].kernel = {.name = "conv",
                           .work = Conv2d{.in_channels = 8, .height = 9, .width = 9, .out_channels = 16}};
  graph.nodes[0].folded = Folded::kBatchNorm;
  graph.nodes[1].kernel = {.name = "relu", .work = Vector{.op = "relu", .rows = 16, .cols = 81}};
  graph.nodes[1].inputs = {0};
  const NamedPass* const pass = FindPass("restore_batch_norm");
  ASSERT_EQ(pass, FindPass(kRestoreBatchNorm));
  ASSERT_NE(pass, nullptr);
  pass->apply(graph);
  ASSERT_EQ(graph.nodes.size(), 3U);
  EXPECT_EQ(std::get<Vector>(graph.nodes[1].kernel.work).op, "batchnorm");
  EXPECT_THAT(graph.nodes[2].inputs, ::testing::ElementsAre(1));
}

TEST(PassLogTest, SaysHowManyKernelsRunBeforeAndAfter) {
  Graph graph;
  graph.nodes.resize(3);
  for (GraphNode& node : graph.nodes) node.kernel.work = Vector{.op = "relu", .rows = 8, .cols = 8};
  graph.nodes[1].inputs = {0};
  graph.nodes[2].inputs = {1};
  graph.nodes[2].costing = Costing::kFree;
  PassLog log(graph);
  FindPass("fuse-elementwise")->apply(graph);
  log.Add("fuse-elementwise", graph);
  log.Add("dtype fp16", graph);
  EXPECT_THAT(log.lines(), ::testing::ElementsAre("fuse-elementwise: 2 kernels become 1", "dtype fp16: 1 kernels"));
}

}  // namespace
}  // namespace gpueta
