#include "core/importers/onnx/op_case.h"

namespace gpueta::onnx_import {
namespace {

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

}  // namespace
}  // namespace gpueta::onnx_import
