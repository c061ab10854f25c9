#include "core/importers/onnx/op_case.h"

namespace gpueta::onnx_import {
namespace {

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

}  // namespace
}  // namespace gpueta::onnx_import
