#include "core/graph/passes/autocast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/passes/training.h"

namespace gpueta {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class AutocastTest : public ::testing::Test {
 protected:
  // Returns the node's index.
  int Add(Work work, std::vector<int> inputs, std::int64_t parameters = 0, std::string source_op = "") {
    GraphNode node;
    node.kernel.name = "n" + std::to_string(graph_.nodes.size());
    node.kernel.work = std::move(work);
    node.inputs = std::move(inputs);
    node.parameters = parameters;
    node.source_op = std::move(source_op);
    graph_.parameters += parameters;
    graph_.parameter_bytes += 4 * parameters;
    graph_.nodes.push_back(std::move(node));
    return static_cast<int>(graph_.nodes.size()) - 1;
  }
  int Linear(std::vector<int> inputs, bool bias = true) {
    return Add(Gemm{.layer = Gemm::Layer::kLinear, .m = 8, .n = 16, .k = 16}, std::move(inputs), 256 + (bias ? 16 : 0));
  }
  int Pass(const char* op, std::vector<int> inputs, std::int64_t parameters = 0, std::string source_op = "") {
    const auto operands = static_cast<std::int64_t>(std::max<std::size_t>(inputs.size(), 1));
    return Add(Vector{.op = op, .rows = 8, .cols = 16, .operands = operands}, std::move(inputs), parameters,
               std::move(source_op));
  }

  // "relu bf16", "cast bf16 n1.to_fp32" in order.
  std::vector<std::string> Kernels() const {
    std::vector<std::string> lines;
    for (const GraphNode& node : graph_.nodes) {
      const auto* vector = std::get_if<Vector>(&node.kernel.work);
      std::string line(vector != nullptr ? std::string_view(vector->op) : Name(node.kernel.op()));
      line += " " + std::string(Name(node.kernel.dtype));
      if (line.starts_with("cast")) line += " " + node.kernel.name;
      lines.push_back(line);
    }
    return lines;
  }
  void Cast() {
    Autocast(graph_, DType::kBf16);
    EXPECT_EQ(Validate(graph_), absl::OkStatus());
    EXPECT_EQ(Bind(graph_, {}).status(), absl::OkStatus());
  }

  Graph graph_;
};

TEST_F(AutocastTest, ProductsRunInSixteenBitsAndNormsInFp32WithCastsBetween) {
  const int first = Linear({}, /*bias=*/false);
  const int norm = Pass("layernorm", {first}, 32);
  Linear({norm});
  Cast();
  EXPECT_THAT(Kernels(), ElementsAre("cast bf16 n0.to_bf16",  // the model's input
                                     "cast bf16 n0.to_bf16",  // weights
                                     "gemm bf16", "cast bf16 n1.to_fp32", "layernorm fp32", "cast bf16 n2.to_bf16",
                                     "cast bf16 n2.to_bf16", "cast bf16 n2.to_bf16",  // weights, bias
                                     "gemm bf16"));
  // Six bytes an element: from fp32 to bf16.
  EXPECT_EQ(CountsOf(graph_.nodes[0].kernel).bytes().value(), 6 * 8 * 16);
  EXPECT_EQ(CountsOf(graph_.nodes[1].kernel).bytes().value(), 6 * 16 * 16);
  EXPECT_THAT(graph_.nodes[2].inputs, ElementsAre(0, 1));
  EXPECT_EQ(graph_.parameter_bytes, 4 * graph_.parameters);
}

TEST_F(AutocastTest, OtherOperatorsTakeTheWidestTypeOfWhatTheyRead) {
  const int words = Pass("embedding", {}, 160);
  const int product = Linear({words});
  const int active = Pass("relu", {product});
  Pass("add", {words, active});
  Pass("add", {product, active});
  Cast();
  const std::vector<std::string> kernels = Kernels();
  EXPECT_EQ(kernels.front(), "embedding fp32");
  EXPECT_THAT(kernels, Contains("relu bf16"));
  EXPECT_EQ(kernels[kernels.size() - 2], "add fp32");
  EXPECT_EQ(kernels.back(), "add bf16");
}

TEST_F(AutocastTest, ABiasBelongsToItsProductAndAPositionDoesNot) {
  const int product = Linear({}, /*bias=*/false);
  const int bias = Pass("add", {product}, 16);
  const int positions = Pass("add", {bias}, 8 * 16);
  Pass("batchnorm", {bias}, 32);
  Pass("gelu", {positions});
  Pass("clip", {bias}, 2);  // its limits are numbers
  Cast();
  EXPECT_THAT(Kernels(),
              ElementsAre("cast bf16 n0.to_bf16", "cast bf16 n0.to_bf16", "gemm bf16", "cast bf16 n1.to_bf16",
                          "add bf16", "add fp32", "batchnorm bf16", "gelu fp32", "clip bf16"));
}

TEST_F(AutocastTest, ListsGoByTheModelsOwnNamesWhereKindsAreShared) {
  const int product = Linear({});
  Pass("reduce", {product}, 0, "ReduceSum");
  Pass("reduce", {product}, 0, "ReduceMean");
  Pass("exp", {product}, 0, "Elu");
  Pass("exp", {product}, 0, "Exp");
  Cast();
  const std::vector<std::string> kernels = Kernels();
  EXPECT_THAT((std::vector<std::string>(kernels.end() - 6, kernels.end())),
              ElementsAre("cast bf16 n1.to_fp32", "reduce fp32", "reduce bf16", "exp bf16", "cast bf16 n4.to_fp32",
                          "exp fp32"));
}

TEST_F(AutocastTest, AttentionReadsKeysAndValuesInItsType) {
  const int words = Pass("embedding", {}, 160);
  Add(Attention{.query_len = 8, .kv_len = 8, .heads = 2, .kv_heads = 2, .head_dim = 8}, {words});
  Cast();
  EXPECT_THAT(Kernels(), ElementsAre("embedding fp32", "cast bf16 n1.to_bf16", "attention bf16"));
  EXPECT_EQ(std::get<Attention>(graph_.nodes.back().kernel.work).kv_dtype, DType::kBf16);
}

TEST_F(AutocastTest, WhatIsInOtherTypesStaysAsItIs) {
  const int index = Pass("copy", {});
  graph_.nodes.back().kernel.dtype = DType::kFp64;
  const int quantised = Linear({index});
  graph_.nodes.back().kernel.dtype = DType::kInt4;
  Pass("softmax", {quantised});
  Cast();
  EXPECT_THAT(Kernels(), ElementsAre("copy fp64", "gemm int4", "cast bf16 n2.to_fp32", "softmax fp32"));
}

TEST_F(AutocastTest, TrainingKeepsParametersGradientsAndOptimiserInFp32) {
  const int conv = Add(Conv2d{.batch = 2,
                              .in_channels = 4,
                              .height = 8,
                              .width = 8,
                              .out_channels = 4,
                              .kernel_h = 3,
                              .kernel_w = 3,
                              .pad_h = 1,
                              .pad_w = 1},
                       {}, 4 * 4 * 9);
  Linear({Pass("relu", {conv})});
  Cast();
  AddBackward(graph_);
  AddOptimiserStep(graph_, Optimiser::kAdam);
  AccumulateGradients(graph_);
  EXPECT_EQ(Validate(graph_), absl::OkStatus());
  EXPECT_EQ(graph_.gradient_bytes, 4 * graph_.parameters);
  EXPECT_EQ(graph_.optimiser_bytes, 8 * graph_.parameters);  // no copy besides: parameters are fp32
  std::vector<std::string> buffers, casts_back, names;
  for (const GraphNode& node : graph_.nodes) {
    names.push_back(node.kernel.name);
    const auto* vector = std::get_if<Vector>(&node.kernel.work);
    if (vector == nullptr) continue;
    if (vector->op.ends_with("_gradient")) buffers.emplace_back(Name(node.kernel.dtype));
    if (vector->op == "cast" && node.turn == Turn::kBackward) casts_back.push_back(node.kernel.name);
  }
  EXPECT_THAT(buffers, AllOf(Not(::testing::IsEmpty()), Each("fp32")));
  // Of three casts of parameters; the model's input needs no gradient.
  EXPECT_EQ(casts_back.size(), 3U);
  EXPECT_THAT(names, Contains("n0.weight_gradient"));
  EXPECT_THAT(names, Not(Contains("n0.input_gradient")));
}

}  // namespace
}  // namespace gpueta
