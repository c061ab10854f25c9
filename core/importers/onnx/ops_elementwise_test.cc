#include "core/importers/onnx/op_case.h"

namespace gpueta::onnx_import {
namespace {

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

}  // namespace
}  // namespace gpueta::onnx_import
