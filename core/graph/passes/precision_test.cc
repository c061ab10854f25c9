#include "core/graph/passes/precision.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

Graph Mixed() {
  Graph graph;
  graph.parameters = 32 * 32;
  graph.parameter_bytes = 4 * graph.parameters;
  for (Work work :
       std::vector<Work>{Gemm{.layer = Gemm::Layer::kLinear, .m = 8, .n = 32, .k = 32},
                         Gemm{.layer = Gemm::Layer::kBmm, .batch = 2, .m = 8, .n = 8, .k = 8},
                         Vector{.op = "add", .rows = 8, .cols = 32},
                         Attention{.query_len = 8, .kv_len = 8, .heads = 2, .kv_heads = 2, .head_dim = 8}}) {
    GraphNode node;
    node.kernel.work = std::move(work);
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

TEST(PrecisionTest, FloatingPointChangesEverythingAndTheCache) {
  Graph graph = Mixed();
  SetDType(graph, DType::kFp16);
  for (const GraphNode& node : graph.nodes) EXPECT_EQ(node.kernel.dtype, DType::kFp16);
  EXPECT_EQ(std::get<Attention>(graph.nodes[3].kernel.work).kv_dtype, DType::kFp16);
  EXPECT_EQ(graph.parameter_bytes, 2 * graph.parameters);
}

TEST(PrecisionTest, TypesOfWeightsChangeProductsWithWeightsAlone) {
  Graph graph = Mixed();
  SetDType(graph, DType::kFp16);
  SetDType(graph, DType::kFp8);
  EXPECT_EQ(graph.nodes[0].kernel.dtype, DType::kFp8);
  for (std::size_t i = 1; i < graph.nodes.size(); ++i) EXPECT_EQ(graph.nodes[i].kernel.dtype, DType::kFp16);
  EXPECT_EQ(graph.parameter_bytes, graph.parameters);
}

TEST(PrecisionTest, TheCacheHasATypeOfItsOwn) {
  Graph graph = Mixed();
  SetKvDType(graph, DType::kFp8);
  EXPECT_EQ(std::get<Attention>(graph.nodes[3].kernel.work).kv_dtype, DType::kFp8);
  EXPECT_EQ(graph.nodes[3].kernel.dtype, DType::kFp32);
}

}  // namespace
}  // namespace gpueta
