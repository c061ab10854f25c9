#include "core/importers/onnx/graph_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/importers/onnx/op_case.h"
#include "core/importers/onnx/testing_models.h"

namespace gpueta::onnx_import {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Arithmetic of shapes leaves no kernel behind.
INSTANTIATE_TEST_SUITE_P(
    Folding, OpTest,
    ::testing::Values(
        OpCase{"FloatsRoundedDown",
               "float[1,3,h,9] x",
               "z = Shape <start = 2, end = 3> (x) f = Cast <to = 1> (z) two = Constant <value_float = 2.0> () g = Div "
               "(f, two) "
               "k = Floor (g) i = Cast <to = 7> (k) v = Constant <value_float = 1.0> () y = ConstantOfShape (i)",
               {"vector fp32 copy rows=1 cols=floordiv(h, 2)"}},
        OpCase{
            "ClippedSizes",
            "float[1,3,h,9] x, float[n,1] q",
            "z = Shape <start = 3, end = 4> (x) f = Cast <to = 1> (z) c = Constant <value_float = 7.5> () g = Sub "
            "(f, c) l = Constant <value_float = 2.0> () k = Clip (g, l) m = Constant <value_float = 1.75> () "
            "j = Clip (k, l, m) d = Constant <value_float = 0.125> () e = Div (j, d) i = Cast <to = 7> (e) y = Expand "
            "(q, i)",
            {"vector fp32 copy rows=n cols=14"}},
        OpCase{"IntegerDivision",
               "float[1,3,h,9] x",
               "z = Shape <start = 2, end = 3> (x) two = Constant <value_ints = [2]> () g = Div (z, two) "
               "one = Constant <value_ints = [1]> () k = Add (g, one) y = ConstantOfShape (k)",
               {"vector fp32 copy rows=1 cols=floordiv(h, 2) + 1"}},
        OpCase{
            "ExpandTargetsWithOnesForMinusOne",
            "float[1,5] x, int64[n,s] ids",
            "z = Shape <end = 1> (ids) m = Constant <value_ints = [-1]> () p = Concat <axis = 0> (z, m) q = Shape (p) "
            "o = ConstantOfShape <value = int64[1] {1}> (q) k = Mul (o, m) e = Equal (p, k) t = Where (e, o, p) "
            "y = Expand (x, t)",
            {"vector fp32 copy rows=n cols=5"}},
        OpCase{"RangeOverASymbol",
               "int64[n,s] ids",
               "i = Constant <value_int = 1> () z = Shape (ids) l = Gather (z, i) o = Constant <value_int = 0> () "
               "y = Range (o, l, i)",
               {"vector fp64 copy rows=1 cols=s"}},
        OpCase{"SmallRangesAreConstants",
               "float[n,4] x",
               "o = Constant <value_int = 0> () e = Constant <value_int = 2> () d = Constant <value_int = 1> () "
               "r = Range (o, e, d) y = Gather <axis = 1> (x, r)",
               {"vector fp32 copy rows=n cols=2"}},
        OpCase{"SizeAndProduct",
               "float[n,3,5] x, float[1] f",
               "z = Shape (x) p = ReduceProd <keepdims = 1> (z) t = Expand (f, p) c = Size (x) u = Constant "
               "<value_ints = [0]> () "
               "v = Unsqueeze (c, u) y = Expand (t, v)",
               {"vector fp32 copy rows=1 cols=15*n", "(free) vector fp32 view rows=1 cols=15*n"}},
        OpCase{"SplitSliceSqueezeTransposeOfShapes",
               "float[n,3,5,7] x, float[1] f",
               "z = Shape (x) a, b = Split <axis = 0> (z) o = Constant <value_ints = [1]> () e = Constant <value_ints "
               "= [-1]> () "
               "q = Slice (z, o, e) t = Transpose (q) g = Concat <axis = 0> (a, t) y = Expand (f, g)",
               {"vector fp32 copy rows=9*n cols=5"}},
        OpCase{"UnknownValuesOfShapesAreNoKernels",
               "float[n,5] x",
               "z = Shape (x) f = Cast <to = 1> (z) g = Sqrt (f) y = Neg (x)",
               {"vector fp32 neg rows=n cols=5"}},
        OpCase{"ConstantsOfConstantsAreNoKernels",
               "float[5,5] w, float[n,5] x",
               "a = Neg (w) b = Transpose (a) c = Softmax (b) y = Add (x, x)",
               {"vector fp32 add rows=n cols=5"}},
        OpCase{"RandomNumbersAreKernels",
               "float[n,5] x",
               "r = RandomNormal <shape = [3,5]> () y = Neg (r)",
               {"vector fp32 copy rows=3 cols=5", "vector fp32 neg rows=3 cols=5"}},
        OpCase{"NothingRunsForEmptyTensors",
               "float[0,5] x, float[n,5] z",
               "a = Neg (x) b = Concat <axis = 0> (a, z) y = Neg (b)",
               {"(free) vector fp32 view rows=0 cols=5", "vector fp32 copy rows=n cols=5",
                "vector fp32 neg rows=n cols=5"}}),
    CaseName);

struct WarningCase {
  std::string name;
  std::string inputs;
  std::string nodes;
  std::vector<std::string> kernels;
  std::string warning;

  friend void PrintTo(const WarningCase& warning_case, std::ostream* out) { *out << warning_case.nodes; }
};

class WarningTest : public ::testing::TestWithParam<WarningCase> {};

TEST_P(WarningTest, WhatIsAssumedIsSaid) {
  const WarningCase& warning_case = GetParam();
  const absl::StatusOr<Graph> graph = BuildGraph(ModelFromText(warning_case.inputs, warning_case.nodes), "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAreArray(warning_case.kernels));
  ASSERT_FALSE(graph->warnings.empty());
  EXPECT_THAT(graph->warnings.front(), HasSubstr(warning_case.warning));
}

INSTANTIATE_TEST_SUITE_P(
    Warnings, WarningTest,
    ::testing::Values(WarningCase{"UnknownOperators",
                                  "float[n,5] x",
                                  "a = my.domain.Foo (x) b = my.domain.Foo (a) y = Neg (b)",
                                  {"(traffic) vector fp32 foo rows=n cols=5", "(traffic) vector fp32 foo rows=n cols=5",
                                   "vector fp32 neg rows=n cols=5"},
                                  "node \"a\" (Foo): the shape of tensor \"a\" is unknown; assumed to be [n,5]"},
                      WarningCase{"ForeignDomainsDoNotShadow",
                                  "float[n,5] x",
                                  "y = my.domain.MatMul (x, x)",
                                  {"(traffic) vector fp32 matmul rows=n cols=5"},
                                  "tensor \"y\" is unknown"},
                      WarningCase{"TopK",
                                  "float[n,50] x",
                                  "k = Constant <value_ints = [5]> () v, i = TopK (x, k) y = Neg (i)",
                                  {"(traffic) vector fp32 topk rows=n cols=50", "vector fp64 neg rows=n cols=5"},
                                  "TopK (1 nodes, the first is node \"v\" (TopK)): costed by memory traffic"},
                      WarningCase{"NonZero",
                                  "float[n,5] x",
                                  "t = NonZero (x) y = Neg (t)",
                                  {"(traffic) vector fp64 nonzero rows=2 cols=5*n", "vector fp64 neg rows=2 cols=5*n"},
                                  "assumed to be all of them"},
                      WarningCase{"InputsWithoutShape",
                                  "float[] x, float[n,5] z",
                                  "y = Add (x, z)",
                                  {"vector fp32 add rows=n cols=5"},
                                  "input \"x\": its shape is not given; assumed to be a scalar"},
                      WarningCase{"InputsWithOpenDims",
                                  "float[?,5] x",
                                  "y = Neg (x)",
                                  {"vector fp32 neg rows=x_dim_0 cols=5"},
                                  "input \"x\", dim 0: is open; the symbol x_dim_0 stands for it"},
                      WarningCase{"UnknownReshapeTargets",
                                  "float[n,6] x, int64[2] p",
                                  "t = Reshape (x, p) y = Neg (t)",
                                  {"(free) vector fp32 view rows=n cols=6", "vector fp32 neg rows=n cols=6"},
                                  "dim 0 of tensor \"t\" is unknown; assumed to be n"},
                      WarningCase{"UnknownReshapeTargetsOfAnotherRank",
                                  "float[n,6] x, int64[3] p",
                                  "t = Reshape (x, p) y = Neg (t)",
                                  {"(free) vector fp32 view rows=1 cols=1", "vector fp32 neg rows=1 cols=1"},
                                  "dim 0 of tensor \"t\" is unknown; assumed to be 1"},
                      WarningCase{"UnknownPads",
                                  "float[n,6] x, int64[4] p",
                                  "t = Pad (x, p) y = Neg (t)",
                                  {"vector fp32 copy rows=n cols=6", "vector fp32 neg rows=n cols=6"},
                                  "dim 0 of tensor \"t\" is unknown; assumed to be n"},
                      WarningCase{"MismatchesAfterAssumptions",
                                  "float[n,5] x",
                                  "t = my.domain.Foo (x) y = Transpose <perm = [0,2,1]> (t)",
                                  {"(traffic) vector fp32 foo rows=n cols=5", "vector fp32 copy rows=n cols=5"},
                                  "tensor \"t\" is unknown"}),
    [](const ::testing::TestParamInfo<WarningCase>& param) { return param.param.name; });

TEST(WarningTest, ManyAssumptionsAreSummedUp) {
  std::string nodes = "t0 = Neg (x)";
  for (int i = 1; i < 200; ++i) nodes += " t" + std::to_string(i) + " = my.Foo (t" + std::to_string(i - 1) + ")";
  const absl::StatusOr<Graph> graph = BuildGraph(ModelFromText("float[n,5] x", nodes + " y = Neg (t199)"), "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->warnings, SizeIs(52));
  EXPECT_EQ(graph->warnings[50], "149 more assumptions");
  EXPECT_THAT(graph->warnings[51], HasSubstr("Foo (199 nodes, the first is node \"t1\" (Foo))"));
}

}  // namespace
}  // namespace gpueta::onnx_import
