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
