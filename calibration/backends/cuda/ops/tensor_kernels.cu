// Products of tensor cores by warp-level instructions and nothing else, for compute_80 and
// newer. Names and arguments of the entries are their contract, with the constants of
// micro_kernels.h. On Hopper and Blackwell the instructions of a group of warps, which
// libraries use, are faster.

#include "calibration/backends/cuda/ops/micro_kernels.h"

namespace {

using namespace gpueta::micro;

}  // namespace

// Every register of the first operand is `a`, every one of the second `b`, each some
// packed elements; the sum of a thread's accumulators goes to out[thread].
#define MMA_ENTRY(name, Accumulator, constraint, instruction)                                              \
  extern "C" __global__ void __launch_bounds__(kMmaThreads)                                                \
      name(Accumulator* out, unsigned a, unsigned b, int iterations) {                                     \
    Accumulator tiles[kMmaTiles][4] = {};                                                                  \
    for (int i = 0; i < iterations; ++i) {                                                                 \
      _Pragma("unroll") for (int t = 0; t < kMmaTiles; ++t) {                                              \
        asm volatile(instruction " {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};"                  \
                     : constraint(tiles[t][0]), constraint(tiles[t][1]), constraint(tiles[t][2]),          \
                       constraint(tiles[t][3])                                                             \
                     : "r"(a), "r"(b));                                                                    \
      }                                                                                                    \
    }                                                                                                      \
    Accumulator sum = 0;                                                                                   \
    for (int t = 0; t < kMmaTiles; ++t) {                                                                  \
      for (int j = 0; j < 4; ++j) sum += tiles[t][j];                                                      \
    }                                                                                                      \
    out[blockIdx.x * kMmaThreads + threadIdx.x] = sum;                                                     \
  }

MMA_ENTRY(mma_fp16, float, "+f", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA_ENTRY(mma_bf16, float, "+f", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_ENTRY(mma_tf32, float, "+f", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
MMA_ENTRY(mma_int8, int, "+r", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
