// What a mixture of experts does around its products: rows to experts, the gated
// activation, and back. One block a row. Compiled to PTX; names and arguments of the
// entries, NAME_DTYPE, are their contract.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "calibration/backends/cuda/ops/moe/moe_rows.cuh"

namespace {

// out[t] = share · the sum of the rows of token t.
template <class T>
__device__ void Combine(T* out, const T* in, const int* begins, const int* rows, float share, long long columns) {
  const int begin = begins[blockIdx.x];
  const int end = begins[blockIdx.x + 1];
  for (long long j = threadIdx.x; j < columns; j += kMoeThreads) {
    float sum = 0;
    for (int i = begin; i < end; ++i) sum += static_cast<float>(in[rows[i] * columns + j]);
    out[blockIdx.x * columns + j] = static_cast<T>(share * sum);
  }
}

}  // namespace

#define ENTRIES(dtype, T)                                                                                          \
  extern "C" __global__ void __launch_bounds__(kMoeThreads)                                                          \
      gather_##dtype(T* out, const T* in, const int* tokens, const int* rows, long long columns) {                 \
    Gather(out, in, tokens, rows, columns);                                                                        \
  }                                                                                                                \
  extern "C" __global__ void __launch_bounds__(kMoeThreads)                                                          \
      silu_gate_##dtype(T* out, const T* in, const int* rows, long long columns) {                                 \
    SiluGate(out, in, rows, columns);                                                                              \
  }                                                                                                                \
  extern "C" __global__ void __launch_bounds__(kMoeThreads)                                                          \
      combine_##dtype(T* out, const T* in, const int* begins, const int* rows, float share, long long columns) {   \
    Combine(out, in, begins, rows, share, columns);                                                                \
  }

ENTRIES(fp32, float)
ENTRIES(fp16, __half)
ENTRIES(bf16, __nv_bfloat16)
