#include "core/importers/onnx/op_case.h"

#include <gmock/gmock.h>

#include "core/importers/onnx/graph_builder.h"
#include "core/importers/onnx/testing_models.h"

namespace gpueta::onnx_import {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

TEST_P(OpTest, BecomesTheseKernels) {
  const OpCase& op_case = GetParam();
  const onnx::ModelProto model = ModelFromText(op_case.inputs, op_case.nodes, op_case.opset);
  const absl::StatusOr<Graph> graph = BuildGraph(model, "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAreArray(op_case.kernels));
  EXPECT_THAT(graph->warnings, IsEmpty());
}

}  // namespace gpueta::onnx_import
