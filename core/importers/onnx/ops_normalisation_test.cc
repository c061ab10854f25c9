#include "core/importers/onnx/op_case.h"

namespace gpueta::onnx_import {
namespace {

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
        OpCase{"BatchNormalizationInTraining",
               "float[n,8,5,7] x, float[8] ws, float[8] wb, float[8] wm, float[8] wv",
               "t, m, v = BatchNormalization <training_mode = 1> (x, ws, wb, wm, wv) s = Add (m, v) y = Neg (t)",
               {"vector fp32 batchnorm rows=40*n cols=7", "vector fp32 add rows=1 cols=8 operands=2",
                "vector fp32 neg rows=40*n cols=7"}},
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

}  // namespace
}  // namespace gpueta::onnx_import
