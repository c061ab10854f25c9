#include <gtest/gtest.h>

#include <set>

#include "core/base/whole_file.h"
#include "core/importers/onnx/op_rule.h"
#include "core/importers/onnx/op_samples.h"

namespace gpueta::onnx_import {
namespace {

TEST(KnownOpsTest, HoldsTheOperatorsOfRealModels) {
  const std::set<std::string_view> real = {"Abs",
                                           "Add",
                                           "And",
                                           "AveragePool",
                                           "BatchNormalization",
                                           "Cast",
                                           "Clip",
                                           "Concat",
                                           "Constant",
                                           "ConstantOfShape",
                                           "Conv",
                                           "Cos",
                                           "CumSum",
                                           "Div",
                                           "Equal",
                                           "Erf",
                                           "Expand",
                                           "Flatten",
                                           "Gather",
                                           "GatherElements",
                                           "GatherND",
                                           "Gemm",
                                           "GlobalAveragePool",
                                           "Greater",
                                           "GreaterOrEqual",
                                           "HardSigmoid",
                                           "HardSwish",
                                           "IsNaN",
                                           "LayerNormalization",
                                           "Less",
                                           "LessOrEqual",
                                           "Log",
                                           "MatMul",
                                           "Max",
                                           "MaxPool",
                                           "Min",
                                           "Mod",
                                           "Mul",
                                           "Neg",
                                           "Not",
                                           "Pad",
                                           "Pow",
                                           "Range",
                                           "Reciprocal",
                                           "ReduceMean",
                                           "Relu",
                                           "Reshape",
                                           "ScatterND",
                                           "Shape",
                                           "Sigmoid",
                                           "Sin",
                                           "Slice",
                                           "Softmax",
                                           "Split",
                                           "Sqrt",
                                           "Squeeze",
                                           "Sub",
                                           "Tanh",
                                           "Transpose",
                                           "Unsqueeze",
                                           "Where"};
  for (std::string_view op : real) EXPECT_TRUE(KnownOps().contains(op)) << op;
}

TEST(KnownOpsTest, EveryRuleIsComplete) {
  for (const auto& [op, rule] : KnownOps()) {
    EXPECT_NE(rule.infer, nullptr) << op;
    EXPECT_NE(rule.cost == nullptr, rule.costs == nullptr) << op;
  }
}

// If it fails, the importer has changed: ninja update_onnx_ops writes the page.
TEST(KnownOpsTest, TheDocumentSaysWhatEachOperatorCosts) {
  const absl::StatusOr<std::string> page = ReadWholeFile("docs/onnx-ops.md");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(*page, OpDocument());
}

}  // namespace
}  // namespace gpueta::onnx_import
