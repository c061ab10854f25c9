// Functions, If, Loop and Scan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "core/importers/onnx/graph_builder.h"
#include "core/importers/onnx/testing_models.h"

namespace gpueta::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

onnx::ModelProto ModelWithFunctions(const std::string& inputs, const std::string& nodes, const std::string& functions) {
  const std::string text = "<ir_version: 8, opset_import: [\"\": 17, \"mine\": 1]>\nmodel (" + inputs +
                           ") => (float[] y) { " + nodes + " }\n" + functions;
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) throw std::invalid_argument(status.ErrorMessage());
  model.mutable_graph()->mutable_output(0)->clear_type();
  return model;
}

constexpr char kScaledSoftmax[] =
    "<domain: \"mine\", opset_import: [\"\": 17]> Attend <axis> (a, b) => (c) "
    "{ p = MatMul (a, b) c = Softmax <axis: int = @axis> (p) }\n";

TEST(FunctionTest, IsWalkedWhereItIsCalled) {
  const absl::StatusOr<Graph> graph = BuildGraph(
      ModelWithFunctions("float[n,3] x, float[3,5] v", "t = mine.Attend <axis = 0> (x, v) y = Neg (t)", kScaledSoftmax),
      "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("gemm fp32 gemm m=n n=5 k=3", "vector fp32 softmax rows=5 cols=n",
                                             "vector fp32 neg rows=n cols=5"));
  EXPECT_THAT(graph->nodes[1].inputs, ElementsAre(0));
  EXPECT_THAT(graph->nodes[2].inputs, ElementsAre(1));
  EXPECT_EQ(graph->nodes[0].kernel.name, "t/p");
  EXPECT_THAT(graph->source_op_counts, ElementsAre(Pair("MatMul", 1), Pair("Neg", 1), Pair("Softmax", 1)));
}

TEST(FunctionTest, PassesAttributesOnToNestedCalls) {
  const absl::StatusOr<Graph> graph = BuildGraph(
      ModelWithFunctions("float[n,3] x, float[3,5] v", "y = mine.Outer <axis = 0> (x, v)",
                         std::string(kScaledSoftmax) +
                             "<domain: \"mine\", opset_import: [\"\": 17, \"mine\": 1]> Outer <axis> (a, b) => (c) "
                             "{ c = mine.Attend <axis: int = @axis> (a, b) }"),
      "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("gemm fp32 gemm m=n n=5 k=3", "vector fp32 softmax rows=5 cols=n"));
  EXPECT_EQ(graph->nodes[1].kernel.name, "y/c/c");
}

TEST(FunctionTest, AttributesThatACallLeavesOutAreAbsent) {
  const absl::StatusOr<Graph> graph =
      BuildGraph(ModelWithFunctions("float[n,3] x, float[3,5] v", "y = mine.Attend (x, v)", kScaledSoftmax), "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("gemm fp32 gemm m=n n=5 k=3", "vector fp32 softmax rows=n cols=5"));
}

TEST(FunctionTest, InputsThatACallLeavesOutAreAbsent) {
  const absl::StatusOr<Graph> graph =
      BuildGraph(ModelWithFunctions("float[n,9] x", "y = mine.Cut (x)",
                                    "<domain: \"mine\", opset_import: [\"\": 17]> Cut (a, low) => (c) "
                                    "{ c = Clip (a, low) }"),
                 "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("vector fp32 clip rows=n cols=9"));
}

struct FlowCase {
  std::string name;
  std::string inputs;
  std::string nodes;
  std::vector<std::string> kernels;
  std::string warning = "";

  friend void PrintTo(const FlowCase& flow_case, std::ostream* out) { *out << flow_case.nodes; }
};

class FlowTest : public ::testing::TestWithParam<FlowCase> {};

TEST_P(FlowTest, BecomesTheseKernels) {
  const absl::StatusOr<Graph> graph = BuildGraph(ModelFromText(GetParam().inputs, GetParam().nodes), "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAreArray(GetParam().kernels));
  if (GetParam().warning.empty()) {
    EXPECT_THAT(graph->warnings, IsEmpty());
  } else {
    EXPECT_THAT(graph->warnings, ElementsAre(HasSubstr(GetParam().warning)));
  }
  EXPECT_TRUE(Validate(*graph).ok());
}

constexpr char kBranches[] =
    " y = If (c) <then_branch = small () => (float[] p) { p = Relu (x) }, "
    "else_branch = large () => (float[] q) { r = MatMul (x, w) q = Exp (r) }>";

INSTANTIATE_TEST_SUITE_P(
    Flow, FlowTest,
    ::testing::Values(
        FlowCase{"IfOfAKnownShape",
                 "float[n,64] x, float[64,64] w",
                 std::string("z = Shape <start = 1> (x) k = Constant <value_ints = [64]> () e = Equal (z, k) "
                             "u = Constant <value_ints = [0]> () c = Squeeze (e, u)") +
                     kBranches,
                 {"vector fp32 relu rows=n cols=64"}},
        FlowCase{"IfOfDataTakesTheHeavierBranch",
                 "float[n,64] x, float[64,64] w, bool c",
                 kBranches,
                 {"gemm fp32 linear m=n n=64 k=64", "vector fp32 exp rows=n cols=64"},
                 "node \"y\" (If): its condition is not known at import; costed as its else_branch, which does more"},
        FlowCase{"IfThatReturnsAnOuterTensor",
                 "float[n,64] x",
                 "c = Constant <value_int = 1> () t = Neg (x) s = If (c) <then_branch = same () => (float[] t) { }, "
                 "else_branch = other () => (float[] q) { q = Exp (x) }> y = Relu (s)",
                 {"vector fp32 neg rows=n cols=64", "vector fp32 relu rows=n cols=64"}},
        FlowCase{"LoopOfAKnownTripCount",
                 "float[n,64] x, float[64,64] w",
                 "m = Constant <value_int = 2> () t = Constant <value_int = 1> () "
                 "l, s = Loop (m, t, x) <body = b (int64 i, bool k, float[] a) => (bool k2, float[] o, float[] o2) "
                 "{ k2 = Identity (k) o = MatMul (a, w) o2 = Relu (o) }> y = Neg (s)",
                 {"gemm fp32 linear m=n n=64 k=64", "vector fp32 relu rows=n cols=64", "gemm fp32 linear m=n n=64 k=64",
                  "vector fp32 relu rows=n cols=64", "vector fp32 copy rows=2*n cols=64",
                  "vector fp32 neg rows=2*n cols=64"}},
        FlowCase{"LoopWhoseShapesGrow",
                 "float[n,8] x",
                 "m = Constant <value_int = 2> () "
                 "y = Loop (m, , x) <body = b (int64 i, bool k, float[] a) => (bool k, float[] o) "
                 "{ o = Concat <axis = 0> (a, a) }>",
                 {"vector fp32 copy rows=2*n cols=8", "vector fp32 copy rows=4*n cols=8"}},
        FlowCase{"LoopThatEndsItself",
                 "float[n,8] x",
                 "m = Constant <value_int = 9> () z = Constant <value_int = 1> () "
                 "y = Loop (m, , x) <body = b (int64 i, bool k, float[] a) => (bool k2, float[] o) "
                 "{ k2 = Less (i, z) o = Exp (a) }>",
                 {"vector fp32 exp rows=n cols=8", "vector fp32 exp rows=n cols=8"}},
        FlowCase{"LoopOfAComputedTripCount",
                 "float[n,8] x, int64 m",
                 "y = Loop (m, , x) <body = b (int64 i, bool k, float[] a) => (bool k, float[] o) { o = Exp (a) }>",
                 {"vector fp32 exp rows=n cols=8"},
                 "how often it runs is not known at import; assumed to be once"},
        FlowCase{"LoopWithoutIterations",
                 "float[n,8] x",
                 "m = Constant <value_int = 0> () "
                 "a = Loop (m, , x) <body = b (int64 i, bool k, float[] a) => (bool k, float[] o) { o = Exp (a) }> "
                 "y = Relu (a)",
                 {"vector fp32 relu rows=n cols=8"}},
        FlowCase{"LoopOfTooManyIterations",
                 "float[n,8] x",
                 "m = Constant <value_int = 1000000> () "
                 "y = Loop (m, , x) <body = b (int64 i, bool k, float[] a) => (bool k, float[] o) { o = Exp (a) }>",
                 {"vector fp32 exp rows=n cols=8"},
                 "its 1000000 iterations are too many to follow; costed as one"},
        FlowCase{"ScanOverSlices",
                 "float[n,4] h, float[3,n,4] x, float[4,4] w",
                 "f, y = Scan (h, x) <num_scan_inputs = 1, body = b (float[] a, float[] s) => (float[] o, float[] o2) "
                 "{ p = MatMul (a, w) o = Add (p, s) o2 = Relu (o) }>",
                 {"gemm fp32 linear m=n n=4 k=4", "vector fp32 add rows=n cols=4 operands=2",
                  "vector fp32 relu rows=n cols=4", "gemm fp32 linear m=n n=4 k=4",
                  "vector fp32 add rows=n cols=4 operands=2", "vector fp32 relu rows=n cols=4",
                  "gemm fp32 linear m=n n=4 k=4", "vector fp32 add rows=n cols=4 operands=2",
                  "vector fp32 relu rows=n cols=4", "vector fp32 copy rows=3*n cols=4"}},
        FlowCase{"ScanOfASymbolicLength",
                 "float[n,4] h, float[s,n,4] x",
                 "y, f = Scan (h, x) <num_scan_inputs = 1, body = b (float[] a, float[] s) => (float[] o, float[] o2) "
                 "{ o = Add (a, s) o2 = Relu (o) }>",
                 {"vector fp32 add rows=n cols=4 operands=2", "vector fp32 relu rows=n cols=4",
                  "(free) vector fp32 view rows=n cols=4"},
                 "it runs s times, which is not known at import; assumed to be once"}),
    [](const ::testing::TestParamInfo<FlowCase>& param) { return param.param.name; });

TEST(FlowTest, NodesMayReadOuterTensorsThroughBranchesInAnyOrder) {
  const absl::StatusOr<Graph> graph = BuildGraph(
      ModelFromText("float[n,8] x",
                    "c = Constant <value_int = 1> () y = If (c) <then_branch = a () => (float[] p) { p = Relu (t) }, "
                    "else_branch = b () => (float[] q) { q = Exp (t) }> t = Neg (x)"),
      "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAre("vector fp32 neg rows=n cols=8", "vector fp32 relu rows=n cols=8"));
  EXPECT_THAT(graph->nodes[1].inputs, ElementsAre(0));
}

TEST(FlowTest, WeightsOfALoopAreCountedOnce) {
  const absl::StatusOr<Graph> graph = BuildGraph(
      ModelFromText("float[n,8] x, float[8,8] w",
                    "m = Constant <value_int = 3> () y = Loop (m, , x) <body = b (int64 i, bool k, float[] a) => "
                    "(bool k, float[] o) { o = MatMul (a, w) }>"),
      "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->parameters, 64);
  EXPECT_THAT(graph->source_op_counts, ElementsAre(Pair("Constant", 1), Pair("Loop", 1), Pair("MatMul", 3)));
}

}  // namespace
}  // namespace gpueta::onnx_import
