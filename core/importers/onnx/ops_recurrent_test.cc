#include "core/importers/onnx/op_case.h"

namespace gpueta::onnx_import {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Recurrent, OpTest,
    ::testing::Values(OpCase{"BidirectionalLstm",
                             "float[s,n,10] x, float[2,80,10] w, float[2,80,20] wr",
                             "a, h, c = LSTM <hidden_size = 20, direction = \"bidirectional\"> (x, w, wr) y = Neg (a)",
                             {"gemm fp32 gemm batch=2 m=n*s n=80 k=10", "gemm fp32 gemm batch=2*s m=n n=80 k=20",
                              "vector fp32 sigmoid rows=2*n*s cols=20 operands=5",
                              "vector fp32 neg rows=2*n*s cols=20"}},
                      OpCase{"LastStateOfAGru",
                             "float[n,s,10] x, float[1,60,10] w, float[1,60,20] wr",
                             "a, h = GRU <hidden_size = 20, layout = 1> (x, w, wr) y = Neg (h)",
                             {"gemm fp32 gemm m=n*s n=60 k=10", "gemm fp32 gemm batch=s m=n n=60 k=20",
                              "vector fp32 sigmoid rows=n*s cols=20 operands=4", "vector fp32 neg rows=n cols=20"}}),
    CaseName);

}  // namespace
}  // namespace gpueta::onnx_import
