#include "core/importers/onnx/op_case.h"

namespace gpueta::onnx_import {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Attention, OpTest,
    ::testing::Values(
        OpCase{"ProjectsFirst",
               "float16[n,s,64] x, float16[64,192] w",
               "t = com.microsoft.Attention <num_heads = 4> (x, w) y = Neg (t)",
               {"gemm fp16 linear m=n*s n=192 k=64",
                "attention fp16 prefill batch=n query_len=s kv_len=s heads=4 kv_heads=4 head_dim=16",
                "vector fp16 neg rows=n*s cols=64"}},
        OpCase{"OfGroupedHeads",
               "float16[n,s,64] q, float16[n,t,32] k, float16[n,t,48] v",
               "a = Attention <q_num_heads = 4, kv_num_heads = 2, is_causal = 1> (q, k, v) y = Neg (a)",
               {"attention fp16 prefill batch=n query_len=s kv_len=t heads=4 kv_heads=2 head_dim=16 causal=1",
                "vector fp16 neg rows=n*s cols=96"}},
        OpCase{"WithACache",
               "float16[n,1,64] q, float16[n,1,32] k, float16[n,1,32] v, float16[n,2,p,16] pk, float16[n,2,p,16] pv",
               "a, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q, k, v, pk, pv) "
               "y = Neg (nk)",
               {"attention fp16 decode batch=n query_len=1 kv_len=p + 1 heads=4 kv_heads=2 head_dim=16",
                "vector fp16 neg rows=2*n*p + 2*n cols=16"}},
        OpCase{"OfPackedInputs",
               "float16[n,s,128] qkv",
               "t = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (qkv) y = Neg (t)",
               {"attention fp16 prefill batch=n query_len=s kv_len=s heads=4 kv_heads=2 head_dim=16 causal=1",
                "vector fp16 neg rows=n*s cols=64"}},
        OpCase{"OfHeadsInTheSecondAxis",
               "float[n,4,s,16] q, float[n,4,t,16] k, float[n,4,t,24] v",
               "a = Attention (q, k, v) y = Neg (a)",
               {"attention fp32 prefill batch=n query_len=s kv_len=t heads=4 kv_heads=4 head_dim=16",
                "vector fp32 neg rows=4*n*s cols=24"},
               23}),
    CaseName);

}  // namespace
}  // namespace gpueta::onnx_import
