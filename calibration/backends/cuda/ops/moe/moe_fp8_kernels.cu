// What moe_kernels.cu does, for products of fp8 (e4m3) whose output is bf16: rows come
// back by combine_bf16. For compute capability 8.9 and newer, which convert in hardware.

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "calibration/backends/cuda/ops/moe/moe_rows.cuh"

// Four elements at once: columns are a multiple of 16, or there would be no products.
extern "C" __global__ void __launch_bounds__(kMoeThreads)
    gather_fp8(unsigned* out, const unsigned* in, const int* tokens, const int* rows, long long columns) {
  Gather(out, in, tokens, rows, columns / 4);
}
extern "C" __global__ void __launch_bounds__(kMoeThreads)
    silu_gate_fp8(__nv_fp8_e4m3* out, const __nv_bfloat16* in, const int* rows, long long columns) {
  SiluGate(out, in, rows, columns);
}
