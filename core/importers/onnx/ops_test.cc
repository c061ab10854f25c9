// Which kernels operators become, and the shapes of their outputs: seen from
// the kernels of their readers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/importers/onnx/graph_builder.h"
#include "core/importers/onnx/op_rule.h"
#include "core/importers/onnx/testing_models.h"

namespace gpueta::onnx_import {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct OpCase {
  std::string name;
  std::string inputs;
  std::string nodes;
  std::vector<std::string> kernels;
  int opset = 17;

  friend void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.nodes; }
};

class OpTest : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpTest, BecomesTheseKernels) {
  const OpCase& op_case = GetParam();
  const onnx::ModelProto model = ModelFromText(op_case.inputs, op_case.nodes, op_case.opset);
  const absl::StatusOr<Graph> graph = BuildGraph(model, "case");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(NodeTexts(*graph), ElementsAreArray(op_case.kernels));
  EXPECT_THAT(graph->warnings, IsEmpty());
}

std::string CaseName(const ::testing::TestParamInfo<OpCase>& param) { return param.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Products, OpTest,
    ::testing::Values(
        OpCase{"LinearFoldsLeadingDims",
               "float[n,7,3] x, float[3,5] w",
               "y = MatMul (x, w)",
               {"gemm fp32 linear m=7*n n=5 k=3"}},
        OpCase{"LinearOfATransposedWeight",
               "float16[n,3] x, float16[5,3] w",
               "v = Transpose <perm = [1,0]> (w) y = MatMul (x, v)",
               {"gemm fp16 linear m=n n=5 k=3"}},
        OpCase{"BmmOfActivations",
               "float[n,4,9,8] q, float[n,4,8,6] k",
               "y = MatMul (q, k)",
               {"gemm fp32 bmm batch=4*n m=9 n=6 k=8"}},
        OpCase{"BmmBroadcasts",
               "float[n,1,9,8] q, float[4,8,6] k",
               "y = MatMul (q, k)",
               {"gemm fp32 bmm batch=4*n m=9 n=6 k=8"}},
        OpCase{"MatricesOfActivationsArePlain",
               "float[n,9,8] a, float[8,6] b",
               "y = MatMul (a, b)",
               {"gemm fp32 gemm m=9*n n=6 k=8"}},
        OpCase{"ConstantOnTheLeft",
               "float[9,8] w, float[n,8,6] b",
               "y = MatMul (w, b)",
               {"gemm fp32 gemm batch=n m=9 n=6 k=8"}},
        OpCase{"AWeightForEachBatch",
               "float[4,9,8] a, float[4,8,6] w",
               "y = MatMul (a, w)",
               {"gemm fp32 gemm batch=4 m=9 n=6 k=8"}},
        OpCase{"VectorsAreRowsAndColumns",
               "float[8] a, float[8,6] b, float[6] c",
               "t = MatMul (a, b) s = MatMul (t, c) y = Neg (s)",
               {"gemm fp32 gemm m=1 n=6 k=8", "gemm fp32 gemm m=1 n=1 k=6", "vector fp32 neg rows=1 cols=1"}},
        OpCase{"GemmTransposes",
               "double[k,n] a, double[5,3] w, double[5] wb",
               "t = Gemm <transA = 1, transB = 1> (a, w, wb) y = Neg (t)",
               {"gemm fp64 linear m=n n=5 k=3", "vector fp64 neg rows=n cols=5"}},
        OpCase{"GemmOfActivationsIsPlain",
               "float[n,3] a, float[3,5] b",
               "y = Gemm (a, b)",
               {"gemm fp32 gemm m=n n=5 k=3"}},
        OpCase{"IntegersMultiplyIntoInt32",
               "uint8[n,3] a, int8[3,5] w",
               "t = MatMulInteger (a, w) y = Neg (t)",
               {"gemm int8 linear m=n n=5 k=3", "vector fp32 neg rows=n cols=5"}},
        OpCase{"QLinearMatMul",
               "uint8[n,3] a, float ws, uint8 wz, uint8[3,5] w, float ws2, uint8 wz2, float ws3, uint8 wz3",
               "t = QLinearMatMul (a, ws, wz, w, ws2, wz2, ws3, wz3) y = Neg (t)",
               {"gemm int8 linear m=n n=5 k=3", "vector int8 neg rows=n cols=5"}},
        OpCase{"QuantisedWeightsUnpackedAtLoad",
               "float[n,3] x, int8[3,5] w, float ws",
               "v = DequantizeLinear (w, ws) y = MatMul (x, v)",
               {"gemm fp32 linear m=n n=5 k=3"}},
        OpCase{"NarrowBlockWeights",
               "float16[n,7,64] x, uint8[5,2,16] w, float16[10] ws",
               "y = com.microsoft.MatMulNBits <K = 64, N = 5, bits = 4> (x, w, ws)",
               {"gemm int4 linear m=7*n n=5 k=64"}},
        OpCase{"EinsumOfAttention",
               "float[n,9,4,8] q, float[n,6,4,8] k",
               "t = Einsum <equation = \"bqhd,bkhd->bhqk\"> (q, k) y = Neg (t)",
               {"gemm fp32 bmm batch=4*n m=9 n=6 k=8", "vector fp32 neg rows=36*n cols=6"}},
        OpCase{"EinsumWithEllipsis",
               "float[n,2,9,8] x, float[8,6] w",
               "t = Einsum <equation = \"...i,ij->...j\"> (x, w) y = Neg (t)",
               {"gemm fp32 linear m=18*n n=6 k=8", "vector fp32 neg rows=18*n cols=6"}},
        OpCase{"EinsumWithoutContraction",
               "float[n,8] a, float[n,8] b",
               "y = Einsum <equation = \"ij,ij->ij\"> (a, b)",
               {"vector fp32 mul rows=n cols=8 operands=2"}}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Convolutions, OpTest,
    ::testing::Values(
        OpCase{
            "Conv",
            "float[n,3,224,224] x, float[64,3,7,7] w, float[64] wb",
            "t = Conv <strides = [2,2], pads = [3,3,3,3]> (x, w, wb) y = Relu (t)",
            {"conv2d fp32 batch=n in_channels=3 height=224 width=224 out_channels=64 kernel_h=7 kernel_w=7 stride_h=2 "
             "stride_w=2 pad_h=3 pad_w=3",
             "vector fp32 relu rows=7168*n cols=112"}},
        OpCase{"ConvOverSymbolicSizes",
               "float[1,3,h,w0] x, float[8,3,3,3] w",
               "t = Conv <strides = [2,2], pads = [1,1,1,1]> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=1 in_channels=3 height=h width=w0 out_channels=8 kernel_h=3 kernel_w=3 stride_h=2 "
                "stride_w=2 "
                "pad_h=1 pad_w=1",
                "vector fp32 relu rows=8*floordiv(h + 1, 2) cols=floordiv(w0 + 1, 2)"}},
        OpCase{"UnevenPads",
               "float[n,3,10,12] x, float[8,3,3,5] w",
               "y = Conv <pads = [0,1,1,3]> (x, w)",
               {"conv2d fp32 batch=n in_channels=3 height=10 width=12 out_channels=8 kernel_h=3 kernel_w=5 pad_w=1 "
                "extra_pad_h=1 extra_pad_w=2"}},
        OpCase{"SameUpper",
               "float[n,3,10,11] x, float[8,3,3,3] w",
               "t = Conv <auto_pad = \"SAME_UPPER\", strides = [2,2]> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=n in_channels=3 height=10 width=11 out_channels=8 kernel_h=3 kernel_w=3 stride_h=2 "
                "stride_w=2 pad_w=1 extra_pad_h=1",
                "vector fp32 relu rows=40*n cols=6"}},
        OpCase{"SameLower",
               "float[n,3,10,11] x, float[8,3,3,3] w",
               "y = Conv <auto_pad = \"SAME_LOWER\", strides = [2,2]> (x, w)",
               {"conv2d fp32 batch=n in_channels=3 height=10 width=11 out_channels=8 kernel_h=3 kernel_w=3 stride_h=2 "
                "stride_w=2 pad_h=1 pad_w=1 extra_pad_h=-1"}},
        OpCase{"SamePadsOfSymbolicSizes",
               "float[1,3,10,s] x, float[8,3,1,3] w",
               "t = Conv <auto_pad = \"SAME_UPPER\"> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=1 in_channels=3 height=10 width=s out_channels=8 kernel_h=1 kernel_w=3 pad_w=1",
                "vector fp32 relu rows=80 cols=s"}},
        OpCase{"DepthwiseAndDilated",
               "float[n,8,16,16] x, float[8,1,3,3] w",
               "t = Conv <group = 8, dilations = [2,2]> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=n in_channels=8 height=16 width=16 out_channels=8 kernel_h=3 kernel_w=3 groups=8 "
                "dilation_h=2 dilation_w=2",
                "vector fp32 relu rows=96*n cols=12"}},
        OpCase{
            "OneAxis",
            "float[n,80,3000] x, float[384,80,3] w",
            "t = Conv <strides = [2], pads = [1,1]> (x, w) y = Relu (t)",
            {"conv2d fp32 batch=n in_channels=80 height=1 width=3000 out_channels=384 kernel_h=1 kernel_w=3 stride_w=2 "
             "pad_w=1",
             "vector fp32 relu rows=384*n cols=1500"}},
        OpCase{"ThreeAxes",
               "float[n,3,8,16,16] x, float[4,3,3,3,3] w",
               "t = Conv <pads = [1,1,1,1,1,1]> (x, w) y = Relu (t)",
               {"custom fp32 conv3d flops=1327104*n bytes=57344*n + 1296", "vector fp32 relu rows=512*n cols=16"}},
        OpCase{"Transposed",
               "float[n,16,7,9] x, float[16,4,3,3] w",
               "t = ConvTranspose <strides = [2,2], pads = [1,1,1,1], output_padding = [1,1], group = 2> (x, w) y = "
               "Relu (t)",
               {"conv2d fp32 batch=n in_channels=8 height=14 width=18 out_channels=16 kernel_h=3 kernel_w=3 stride_h=2 "
                "stride_w=2 pad_h=1 pad_w=1 groups=2",
                "vector fp32 relu rows=112*n cols=18"}},
        OpCase{"TransposedToAShape",
               "float[n,16,7] x, float[16,4,4] w",
               "t = ConvTranspose <strides = [2], output_shape = [14]> (x, w) y = Relu (t)",
               {"conv2d fp32 batch=n in_channels=4 height=1 width=14 out_channels=16 kernel_h=1 kernel_w=4 stride_w=2 "
                "pad_w=1",
                "vector fp32 relu rows=4*n cols=14"}},
        OpCase{"TransposedThreeAxes",
               "float[n,4,2,3,3] x, float[4,2,2,2,2] w",
               "t = ConvTranspose <strides = [2,2,2]> (x, w) y = Relu (t)",
               {"custom fp32 conv_transpose3d flops=2304*n bytes=1440*n + 256", "vector fp32 relu rows=48*n cols=6"}},
        OpCase{"QLinearConv",
               "uint8[n,3,8,8] x, float ws, uint8 wz, int8[4,3,3,3] w, float ws2, int8 wz2, float ws3, "
               "uint8 wz3",
               "t = QLinearConv (x, ws, wz, w, ws2, wz2, ws3, wz3) y = MaxPool <kernel_shape = [2,2], strides = [2,2]> "
               "(t)",
               {"conv2d int8 batch=n in_channels=3 height=8 width=8 out_channels=4 kernel_h=3 kernel_w=3",
                "vector int8 pool rows=12*n cols=3 operands=4"}},
        OpCase{"ConvInteger",
               "uint8[n,3,8,8] x, uint8[4,3,3,3] w",
               "t = ConvInteger (x, w) y = Neg (t)",
               {"conv2d int8 batch=n in_channels=3 height=8 width=8 out_channels=4 kernel_h=3 kernel_w=3",
                "vector fp32 neg rows=24*n cols=6"}}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Elementwise, OpTest,
    ::testing::Values(
        OpCase{"FullSizeOperandsAreCounted",
               "float[n,5] a, float[n,5] b",
               "y = Add (a, b)",
               {"vector fp32 add rows=n cols=5 operands=2"}},
        OpCase{"OneTensorTwiceIsReadOnce", "float[n,5] a", "y = Mul (a, a)", {"vector fp32 mul rows=n cols=5"}},
        OpCase{"ConstantsAndSmallerOperandsAreNot",
               "float[n,5] a, float[5] b, float[n,5] wide, float[1,5] w",
               "t = Sub (a, b) y = Div (t, w)",
               {"vector fp32 sub rows=n cols=5", "vector fp32 div rows=n cols=5"}},
        OpCase{"OuterBroadcast", "float[n,1] a, float[1,m] b", "y = Max (a, b)", {"vector fp32 max rows=n cols=m"}},
        OpCase{"Where",
               "bool[n,1,5] c, float16[n,4,5] a, float16 b",
               "t = Where (c, a, b) y = Neg (t)",
               {"vector fp16 where rows=4*n cols=5", "vector fp16 neg rows=4*n cols=5"}},
        OpCase{"ComparisonsGiveBool",
               "int64[n,5] a, int64[n,5] b",
               "t = Less (a, b) y = Not (t)",
               {"vector fp64 compare rows=n cols=5 operands=2", "vector int8 logical rows=n cols=5"}},
        OpCase{"ParametersDoNotBroadcast",
               "float[n,5] a, float lo, float hi",
               "y = Clip (a, lo, hi)",
               {"vector fp32 clip rows=n cols=5"}},
        OpCase{"CastIsOfTheWiderType",
               "float16[n,5] a",
               "t = Cast <to = 1> (a) y = Neg (t)",
               {"vector fp32 cast rows=n cols=5", "vector fp32 neg rows=n cols=5"}},
        OpCase{"CastToTheSameTypeIsAView",
               "float[n,5] a",
               "y = Cast <to = 1> (a)",
               {"(free) vector fp32 view rows=n cols=5"}},
        OpCase{"Quantisation",
               "float[n,5] a, float ws, int8 wz",
               "q = QuantizeLinear (a, ws, wz) t = Relu (q) y = DequantizeLinear (q, ws, wz)",
               {"vector fp32 cast rows=n cols=5", "vector int8 relu rows=n cols=5", "vector fp32 cast rows=n cols=5"}},
        OpCase{"DynamicQuantisation",
               "float[n,5] a",
               "q, s, z = DynamicQuantizeLinear (a) y = Relu (q)",
               {"vector fp32 cast rows=n cols=5", "vector int8 relu rows=n cols=5"}},
        OpCase{"Activations",
               "float[n,5] a, float[5] ws",
               "b = Gelu (a) c = LeakyRelu (b) d = PRelu (c, ws) e = HardSwish (d) f = Mish (e) y = "
               "com.microsoft.FastGelu (f)",
               {"vector fp32 gelu rows=n cols=5", "vector fp32 relu rows=n cols=5", "vector fp32 relu rows=n cols=5",
                "vector fp32 hardswish rows=n cols=5", "vector fp32 silu rows=n cols=5",
                "vector fp32 gelu rows=n cols=5"}},
        OpCase{"Scalars", "float a", "y = Exp (a)", {"vector fp32 exp rows=1 cols=1"}}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Layout, OpTest,
    ::testing::Values(
        OpCase{"ReshapeInfersOneDim",
               "float[n,s,768] x",
               "p = Constant <value_ints = [0,0,12,-1]> () r = Reshape (x, p) y = Neg (r)",
               {"(free) vector fp32 view rows=12*n*s cols=64", "vector fp32 neg rows=12*n*s cols=64"}},
        OpCase{
            "ReshapeToAComputedShape",
            "float[n,s,768] x",
            "z = Shape (x) i = Constant <value_int = 0> () b = Gather <axis = 0> (z, i) u = Constant <value_ints = "
            "[0]> () "
            "c = Unsqueeze (b, u) m = Constant <value_ints = [-1]> () p = Concat <axis = 0> (c, m) r = Reshape (x, p) "
            "y = Neg (r)",
            {"(free) vector fp32 view rows=n cols=768*s", "vector fp32 neg rows=n cols=768*s"}},
        OpCase{"FlattenAndViews",
               "float[n,3,1,5] x",
               "a = Flatten (x) b = Identity (a) c = Dropout (b) y = Neg (c)",
               {"(free) vector fp32 view rows=n cols=15", "(free) vector fp32 view rows=n cols=15",
                "(free) vector fp32 view rows=n cols=15", "vector fp32 neg rows=n cols=15"}},
        OpCase{"SqueezeWithAttribute",
               "float[n,1,5,1] x",
               "a = Squeeze <axes = [1,-1]> (x) y = Neg (a)",
               {"(free) vector fp32 view rows=n cols=5", "vector fp32 neg rows=n cols=5"},
               11},
        OpCase{"SqueezeOfAllOnes",
               "float[n,1,5,1] x",
               "a = Squeeze (x) y = Neg (a)",
               {"(free) vector fp32 view rows=n cols=5", "vector fp32 neg rows=n cols=5"}},
        OpCase{"UnsqueezeWithAttribute",
               "float[n,5] x",
               "a = Unsqueeze <axes = [1,3]> (x) y = Neg (a)",
               {"(free) vector fp32 view rows=5*n cols=1", "vector fp32 neg rows=5*n cols=1"},
               11},
        OpCase{"UnsqueezeWithInput",
               "float[n,5] x",
               "p = Constant <value_ints = [-1]> () a = Unsqueeze (x, p) y = Neg (a)",
               {"(free) vector fp32 view rows=5*n cols=1", "vector fp32 neg rows=5*n cols=1"}},
        OpCase{"Transpose",
               "float[n,3,5,7] x",
               "y = Transpose <perm = [0,2,3,1]> (x)",
               {"vector fp32 copy rows=35*n cols=3"}},
        OpCase{
            "TransposeReversesByDefault", "float[n,3,5] x", "y = Transpose (x)", {"vector fp32 copy rows=15 cols=n"}},
        OpCase{"TransposeOfOnesIsAView",
               "float[n,1,5,7] x",
               "y = Transpose <perm = [0,2,1,3]> (x)",
               {"(free) vector fp32 view rows=5*n cols=7"}},
        OpCase{"Concat",
               "float[n,3] x, float[n,m] z",
               "y = Concat <axis = -1> (x, z)",
               {"vector fp32 copy rows=n cols=m + 3"}},
        OpCase{"ConcatOfOneIsAView",
               "float[n,3] x",
               "y = Concat <axis = 0> (x)",
               {"(free) vector fp32 view rows=n cols=3"}},
        OpCase{"SplitWithAttribute",
               "float[n,9] x",
               "a, b = Split <axis = 1, split = [4,5]> (x) y = Neg (b)",
               {"vector fp32 copy rows=n cols=9", "vector fp32 neg rows=n cols=5"},
               11},
        OpCase{"SplitWithInput",
               "float[n,9] x",
               "p = Constant <value_ints = [4,5]> () a, b = Split <axis = 1> (x, p) y = Neg (b)",
               {"vector fp32 copy rows=n cols=9", "vector fp32 neg rows=n cols=5"}},
        OpCase{"SplitEvenly",
               "float[n,8] x",
               "a, b = Split <axis = 1> (x) y = Neg (b)",
               {"vector fp32 copy rows=n cols=8", "vector fp32 neg rows=n cols=4"}},
        OpCase{"SplitWithASmallerLastPart",
               "float[n,9] x",
               "a, b = Split <axis = 1, num_outputs = 2> (x) y = Neg (b)",
               {"vector fp32 copy rows=n cols=9", "vector fp32 neg rows=n cols=4"},
               18},
        OpCase{"PadWithAttribute",
               "float[n,5] x",
               "y = Pad <pads = [0,1,0,2]> (x)",
               {"vector fp32 copy rows=n cols=8"},
               10},
        OpCase{"PadOfNamedAxes",
               "float[n,5] x, float wv",
               "p = Constant <value_ints = [1,2]> () a = Constant <value_ints = [-1]> () y = Pad (x, p, wv, a)",
               {"vector fp32 copy rows=n cols=8"},
               18},
        OpCase{"PadOfNothingIsAView",
               "float[n,5] x",
               "p = Constant <value_ints = [0,0,0,0]> () y = Pad (x, p)",
               {"(free) vector fp32 view rows=n cols=5"}},
        OpCase{"Expand",
               "float[n,1,5] x",
               "p = Constant <value_ints = [4,1]> () y = Expand (x, p)",
               {"vector fp32 copy rows=4*n cols=5"}},
        OpCase{"ExpandToItsShapeIsAView",
               "float[n,5] x",
               "p = Shape (x) y = Expand (x, p)",
               {"(free) vector fp32 view rows=n cols=5"}},
        OpCase{"Tile",
               "float[n,5] x",
               "p = Constant <value_ints = [2,3]> () y = Tile (x, p)",
               {"vector fp32 copy rows=2*n cols=15"}},
        OpCase{"Trilu", "float[n,5,5] x", "y = Trilu (x)", {"vector fp32 copy rows=5*n cols=5"}}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Indexing, OpTest,
    ::testing::Values(
        OpCase{"LookUpInATableIsAnEmbedding",
               "int64[n,s] ids, float16[50000,768] w",
               "t = Gather (w, ids) y = Neg (t)",
               {"vector fp16 embedding rows=n*s cols=768", "vector fp16 neg rows=n*s cols=768"}},
        OpCase{"SelectionOfActivationsIsACopy",
               "float[n,s,768] x",
               "i = Constant <value_int = 0> () y = Gather <axis = 1> (x, i)",
               {"vector fp32 copy rows=n cols=768"}},
        OpCase{"SliceWithAttributes",
               "float[n,s,64] x",
               "y = Slice <axes = [2], starts = [32], ends = [9223372036854775807]> (x)",
               {"vector fp32 copy rows=n*s cols=32"},
               9},
        OpCase{"SliceToASymbol",
               "float[1,512] x, int64[n,s] ids",
               "z = Shape <start = 1> (ids) o = Constant <value_ints = [0]> () a = Constant <value_ints = [1]> () "
               "y = Slice (x, o, z, a)",
               {"vector fp32 copy rows=1 cols=min(512, s)"}},
        OpCase{"SliceFromTheEnd",
               "float[n,s] x",
               "o = Constant <value_ints = [-1]> () e = Constant <value_ints = [9223372036854775807]> () "
               "a = Constant <value_ints = [1]> () y = Slice (x, o, e, a)",
               {"vector fp32 copy rows=n cols=1"}},
        OpCase{"SliceWithStep",
               "float[n,9] x",
               "o = Constant <value_ints = [1]> () e = Constant <value_ints = [100]> () a = Constant <value_ints = "
               "[1]> () "
               "p = Constant <value_ints = [3]> () y = Slice (x, o, e, a, p)",
               {"vector fp32 copy rows=n cols=3"}},
        OpCase{"SliceBackwards",
               "float[n,9] x",
               "o = Constant <value_ints = [-1]> () e = Constant <value_ints = [-9223372036854775807]> () "
               "a = Constant <value_ints = [1]> () p = Constant <value_ints = [-2]> () y = Slice (x, o, e, a, p)",
               {"vector fp32 copy rows=n cols=5"}},
        OpCase{"SliceOfEverythingIsAView",
               "float[n,9] x",
               "o = Constant <value_ints = [0]> () e = Constant <value_ints = [9223372036854775807]> () "
               "a = Constant <value_ints = [0]> () y = Slice (x, o, e, a)",
               {"(free) vector fp32 view rows=n cols=9"}},
        OpCase{"GatherElements",
               "float[n,9] x, int64[n,2] i",
               "y = GatherElements <axis = 1> (x, i)",
               {"vector fp32 copy rows=n cols=2"}},
        OpCase{"GatherNd",
               "float[n,9,4,5] x, int64[n,7,1] i",
               "y = GatherND <batch_dims = 1> (x, i)",
               {"vector fp32 copy rows=28*n cols=5"}},
        OpCase{"Scatter",
               "float[n,9] x, int64[3,1] i, float[3,9] u",
               "y = ScatterND (x, i, u)",
               {"vector fp32 copy rows=n cols=9"}},
        OpCase{"OneHot",
               "int64[n,s] x, float[2] v",
               "d = Constant <value_int = 10> () y = OneHot (x, d, v)",
               {"vector fp32 copy rows=n*s cols=10"}}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Reductions, OpTest,
    ::testing::Values(OpCase{"AlongTheLastAxis",
                             "float[n,s,768] x",
                             "t = ReduceMean <axes = [-1]> (x) y = Neg (t)",
                             {"vector fp32 reduce rows=n*s cols=768", "vector fp32 neg rows=n*s cols=1"}},
                      OpCase{"AlongSpatialAxes",
                             "float[n,64,7,7] x",
                             "t = ReduceMean <axes = [2,3], keepdims = 0> (x) y = Neg (t)",
                             {"vector fp32 reduce rows=64*n cols=49", "vector fp32 neg rows=n cols=64"}},
                      OpCase{"AxesFromAnInput",
                             "float[n,s,768] x",
                             "a = Constant <value_ints = [1]> () t = ReduceSum <keepdims = 0> (x, a) y = Neg (t)",
                             {"vector fp32 reduce rows=768*n cols=s", "vector fp32 neg rows=n cols=768"}},
                      OpCase{"AlongAllAxes",
                             "float[n,5] x",
                             "t = ReduceMax <keepdims = 0> (x) y = Neg (t)",
                             {"vector fp32 reduce rows=1 cols=5*n", "vector fp32 neg rows=1 cols=1"}},
                      OpCase{"ArgMax",
                             "float[n,5] x",
                             "t = ArgMax <axis = 1, keepdims = 0> (x) y = Neg (t)",
                             {"vector fp32 reduce rows=n cols=5", "vector fp64 neg rows=1 cols=n"}},
                      OpCase{"CumSum",
                             "int64[n,s] x",
                             "a = Constant <value_int = 1> () y = CumSum (x, a)",
                             {"vector fp64 cumsum rows=n cols=s"}}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Normalisations, OpTest,
    ::testing::Values(
        OpCase{"SoftmaxAlongOneAxis",
               "float[n,4,s,9] x",
               "y = Softmax <axis = 1> (x)",
               {"vector fp32 softmax rows=9*n*s cols=4"}},
        OpCase{"SoftmaxOfOldFlattens",
               "float[n,4,9] x",
               "y = Softmax <axis = 1> (x)",
               {"vector fp32 softmax rows=n cols=36"},
               12},
        OpCase{"LogSoftmax", "float[n,10] x", "y = LogSoftmax (x)", {"vector fp32 softmax rows=n cols=10"}},
        OpCase{"LayerNormalization",
               "float16[n,s,768] x, float16[768] ws, float16[768] wb",
               "t, m, v = LayerNormalization (x, ws, wb) y = Neg (m)",
               {"vector fp16 layernorm rows=n*s cols=768", "vector fp32 neg rows=n*s cols=1"}},
        OpCase{"RmsNorm",
               "float[n,s,768] x, float[768] ws",
               "y = SimplifiedLayerNormalization (x, ws)",
               {"vector fp32 rmsnorm rows=n*s cols=768"}},
        OpCase{"SkipLayerNorm",
               "float[n,s,768] x, float[n,s,768] r, float[768] ws",
               "t, m, v, u = com.microsoft.SkipLayerNormalization (x, r, ws) y = Neg (u)",
               {"vector fp32 layernorm rows=n*s cols=768 operands=2", "vector fp32 neg rows=n*s cols=768"}},
        OpCase{"BatchNormalization",
               "float[n,8,5,7] x, float[8] ws, float[8] wb, float[8] wm, float[8] wv",
               "y = BatchNormalization (x, ws, wb, wm, wv)",
               {"vector fp32 batchnorm rows=40*n cols=7"}},
        OpCase{"InstanceNormalization",
               "float[n,8,5,7] x, float[8] ws, float[8] wb",
               "y = InstanceNormalization (x, ws, wb)",
               {"vector fp32 groupnorm rows=8*n cols=35"}},
        OpCase{"GroupNormalization",
               "float[n,8,5,7] x, float[4] ws, float[4] wb",
               "y = GroupNormalization <num_groups = 4> (x, ws, wb)",
               {"vector fp32 groupnorm rows=4*n cols=70"},
               18}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Spatial, OpTest,
    ::testing::Values(
        OpCase{"MaxPool",
               "float[n,8,112,112] x",
               "t = MaxPool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (x) y = Neg (t)",
               {"vector fp32 pool rows=448*n cols=56 operands=4", "vector fp32 neg rows=448*n cols=56"}},
        OpCase{"RoundedUp",
               "float[n,8,109,109] x",
               "t = MaxPool <kernel_shape = [3,3], strides = [2,2], ceil_mode = 1> (x) y = Neg (t)",
               {"vector fp32 pool rows=432*n cols=54 operands=4", "vector fp32 neg rows=432*n cols=54"}},
        OpCase{
            "NoWindowStartsInThePadding",
            "float[n,8,1,5] x",
            "t = AveragePool <kernel_shape = [1,2], strides = [1,3], pads = [0,0,0,1], ceil_mode = 1> (x) y = Neg (t)",
            {"vector fp32 pool rows=8*n cols=2 operands=2", "vector fp32 neg rows=8*n cols=2"}},
        OpCase{"GlobalPool",
               "float[n,8,7,9] x",
               "t = GlobalAveragePool (x) y = Neg (t)",
               {"vector fp32 reduce rows=8*n cols=63", "vector fp32 neg rows=8*n cols=1"}},
        OpCase{"ResizeToSizes",
               "float[n,8,7,9] x",
               "z = Shape <end = 2> (x) p = Constant <value_ints = [14,27]> () q = Concat <axis = 0> (z, p) "
               "y = Resize (x, , , q)",
               {"vector fp32 resize rows=112*n cols=27"}},
        OpCase{"ResizeByScales",
               "float[1,8,h,9] x",
               "r = Constant <value_floats = [0.0]> () c = Constant <value_floats = [1.0,1.0,0.5,2.0]> () y = Resize "
               "(x, r, c)",
               {"vector fp32 resize rows=8*floordiv(h, 2) cols=18"}},
        OpCase{"UpsampleByAttribute",
               "float[n,8,7,9] x",
               "y = Upsample <scales = [1.0,1.0,2.0,2.0]> (x)",
               {"vector fp32 resize rows=112*n cols=18"},
               7},
        OpCase{"GridSample",
               "float[n,8,7,9] x, float[n,5,6,2] g",
               "y = GridSample (x, g)",
               {"vector fp32 resize rows=40*n cols=6"}},
        OpCase{"DepthToSpace",
               "float[n,12,5,7] x",
               "y = DepthToSpace <blocksize = 2> (x)",
               {"vector fp32 copy rows=30*n cols=14"}},
        OpCase{"SpaceToDepth",
               "float[n,3,10,14] x",
               "y = SpaceToDepth <blocksize = 2> (x)",
               {"vector fp32 copy rows=60*n cols=7"}}),
    CaseName);

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
    ::testing::Values(
        WarningCase{"UnknownOperators",
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
        WarningCase{"FusedAttention",
                    "float16[n,s,64] x, float16[64,192] w",
                    "t = com.microsoft.Attention <num_heads = 4> (x, w) y = Neg (t)",
                    {"(traffic) vector fp16 attention rows=n*s cols=64", "vector fp16 neg rows=n*s cols=64"},
                    "Attention (1 nodes"},
        WarningCase{"GroupedAttention",
                    "float16[n,s,64] q, float16[n,s,32] k, float16[n,s,48] v",
                    "t = Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, v) y = Neg (t)",
                    {"(traffic) vector fp16 attention rows=n*s cols=96", "vector fp16 neg rows=n*s cols=96"},
                    "Attention (1 nodes"},
        WarningCase{"AttentionOfPackedInputs",
                    "float16[n,s,128] qkv",
                    "t = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (qkv) y = Neg (t)",
                    {"(traffic) vector fp16 groupqueryattention rows=n*s cols=128", "vector fp16 neg rows=n*s cols=64"},
                    "GroupQueryAttention (1 nodes"},
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
                    {"(free) vector fp32 view rows=1 cols=1", "vector fp32 neg rows=1 cols=1"},
                    "dim 0 of tensor \"t\" is unknown; assumed to be 1"},
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
    EXPECT_NE(rule.cost, nullptr) << op;
  }
}

}  // namespace
}  // namespace gpueta::onnx_import
