// Kernels that ask one thing of a device: arithmetic without memory, memory without
// arithmetic, one load after the other. Compiled to PTX; the names and arguments of the
// entries are their contract, with the constants of micro_kernels.h.

#include <cuda_fp16.h>

#include "calibration/backends/cuda/ops/micro_kernels.h"

namespace {

using namespace gpueta::micro;

__device__ float Fma(float x, float scale, float shift) { return fmaf(x, scale, shift); }
__device__ double Fma(double x, double scale, double shift) { return fma(x, scale, shift); }
__device__ __half2 Fma(__half2 x, __half2 scale, __half2 shift) { return __hfma2(x, scale, shift); }
__device__ float Add(float x, float y) { return x + y; }
__device__ double Add(double x, double y) { return x + y; }
__device__ __half2 Add(__half2 x, __half2 y) { return __hadd2(x, y); }

// Chain c starts at c; each step is x·scale + shift. The chains' sum goes to out.
template <class T>
__device__ void FmaChains(T* out, T scale, T shift, int iterations, T (*number)(float)) {
  T chains[kFmaChains];
#pragma unroll
  for (int c = 0; c < kFmaChains; ++c) chains[c] = number(static_cast<float>(c));
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int step = 0; step < kFmaSteps; ++step) {
#pragma unroll
      for (int c = 0; c < kFmaChains; ++c) chains[c] = Fma(chains[c], scale, shift);
    }
  }
  T sum = chains[0];
#pragma unroll
  for (int c = 1; c < kFmaChains; ++c) sum = Add(sum, chains[c]);
  out[blockIdx.x * kFmaThreads + threadIdx.x] = sum;
}

__device__ float Single(float x) { return x; }
__device__ double Double(float x) { return x; }
__device__ __half2 Halves(float x) { return __float2half2_rn(x); }

}  // namespace

extern "C" __global__ void __launch_bounds__(kFmaThreads)
    fma_fp32(float* out, float scale, float shift, int iterations) {
  FmaChains<float>(out, scale, shift, iterations, Single);
}
extern "C" __global__ void __launch_bounds__(kFmaThreads)
    fma_fp64(double* out, float scale, float shift, int iterations) {
  FmaChains<double>(out, scale, shift, iterations, Double);
}
extern "C" __global__ void __launch_bounds__(kFmaThreads)
    fma_fp16(__half2* out, float scale, float shift, int iterations) {
  FmaChains<__half2>(out, Halves(scale), Halves(shift), iterations, Halves);
}

// From word `start` to the word that it names, `steps` times; where that ends goes to out.
extern "C" __global__ void chase(unsigned* out, const unsigned* next, unsigned start, int steps) {
  unsigned at = start;
#pragma unroll 8
  for (int i = 0; i < steps; ++i) at = next[at];
  *out = at;
}

// The sum of all words that a thread reads goes to out[thread]; blocks go round.
extern "C" __global__ void __launch_bounds__(kStreamThreads) read(unsigned* out, const uint4* from, long long packs) {
  const long long round = static_cast<long long>(gridDim.x) * kStreamThreads * kStreamPacks;
  unsigned sum = 0;
  for (long long at = static_cast<long long>(blockIdx.x) * kStreamThreads * kStreamPacks; at < packs; at += round) {
    uint4 values[kStreamPacks];
#pragma unroll
    for (int j = 0; j < kStreamPacks; ++j) {
      const long long i = at + j * kStreamThreads + threadIdx.x;
      values[j] = i < packs ? __ldcs(from + i) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int j = 0; j < kStreamPacks; ++j) sum += values[j].x + values[j].y + values[j].z + values[j].w;
  }
  out[blockIdx.x * kStreamThreads + threadIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(kStreamThreads) copy(uint4* to, const uint4* from, long long packs) {
  const long long round = static_cast<long long>(gridDim.x) * kStreamThreads * kStreamPacks;
  for (long long at = static_cast<long long>(blockIdx.x) * kStreamThreads * kStreamPacks; at < packs; at += round) {
    uint4 values[kStreamPacks];
#pragma unroll
    for (int j = 0; j < kStreamPacks; ++j) {
      const long long i = at + j * kStreamThreads + threadIdx.x;
      if (i < packs) values[j] = __ldcs(from + i);
    }
#pragma unroll
    for (int j = 0; j < kStreamPacks; ++j) {
      const long long i = at + j * kStreamThreads + threadIdx.x;
      if (i < packs) __stcs(to + i, values[j]);
    }
  }
}

// Copies round and round, in bursts of some microseconds, each followed by `pause` times
// what it took; ends after `cycles` of the SM's clock. What it copies is the first to
// leave the caches.
extern "C" __global__ void __launch_bounds__(kStreamThreads)
    contend(uint4* to, const uint4* from, long long packs, long long cycles, float pause) {
  const long long start = clock64();
  const long long burst = static_cast<long long>(kStreamThreads) * kStreamPacks;
  for (long long at = blockIdx.x * burst;; at = (at + gridDim.x * burst) % packs) {
    const long long begin = clock64();
    uint4 values[kStreamPacks];
#pragma unroll
    for (int j = 0; j < kStreamPacks; ++j) values[j] = __ldcs(from + (at + j * kStreamThreads + threadIdx.x) % packs);
#pragma unroll
    for (int j = 0; j < kStreamPacks; ++j) __stcs(to + (at + j * kStreamThreads + threadIdx.x) % packs, values[j]);
    const long long now = clock64();
    if (now - start > cycles) return;
    const long long until = now + static_cast<long long>(static_cast<float>(now - begin) * pause);
    while (clock64() < until) __nanosleep(100);
  }
}
