#include "core/importers/onnx/op_case.h"

namespace gpueta::onnx_import {
namespace {

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

}  // namespace
}  // namespace gpueta::onnx_import
