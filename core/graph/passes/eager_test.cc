#include "core/graph/passes/eager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

GraphNode Convolution(Folded folded, std::vector<int> inputs) {
  GraphNode node;
  node.kernel.name = "conv";
  node.kernel.work = Conv2d{.in_channels = 8,
                            .height = 9,
                            .width = 7,
                            .out_channels = 16,
                            .kernel_h = 3,
                            .kernel_w = 3,
                            .stride_h = 2,
                            .stride_w = 2,
                            .pad_h = 1};
  SetDimOf(node, "batch", SymInt::Symbol("batch"));
  node.inputs = std::move(inputs);
  node.parameters = 8 * 16 * 9 + 16;
  node.folded = folded;
  return node;
}

Graph Restored(Folded folded) {
  Graph graph;
  graph.symbols = {{"batch", 0}};
  graph.nodes = {Convolution(folded, {}), Convolution(Folded::kNothing, {0})};
  RestoreFolded(graph);
  EXPECT_TRUE(Validate(graph).ok());
  return graph;
}

TEST(RestoreFoldedTest, ABatchNormRunsOverWhatItsConvolutionWrites) {
  const Graph graph = Restored(Folded::kBatchNorm);
  ASSERT_THAT(graph.nodes, SizeIs(3));
  const auto kernels = Bind(graph, {{"batch", 4}});
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  const auto& conv = std::get<Conv2d>((*kernels)[0].work);
  EXPECT_EQ((*kernels)[1].work,
            (Work{Vector{.op = "batchnorm", .rows = 4 * 16 * OutHeight(conv), .cols = OutWidth(conv)}}));
  // What read the convolution reads the norm; a second run of the pass finds nothing.
  EXPECT_THAT(graph.nodes[2].inputs, ElementsAre(1));
  EXPECT_EQ(graph.nodes[0].parameters, 8 * 16 * 9);
  Graph again = graph;
  RestoreFolded(again);
  EXPECT_THAT(again.nodes, SizeIs(3));
}

TEST(RestoreFoldedTest, ABiasIsAPassOfItsOwnAndNothingElseIsAdded) {
  EXPECT_EQ(std::get<Vector>(Restored(Folded::kBias).nodes[1].kernel.work).op, "add");
  EXPECT_THAT(Restored(Folded::kNothing).nodes, SizeIs(2));
}

}  // namespace
}  // namespace gpueta
