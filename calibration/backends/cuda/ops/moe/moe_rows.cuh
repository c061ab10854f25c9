// Rows of a mixture of experts, by kernels of one block a row.
#pragma once

namespace {

constexpr int kMoeThreads = 256;

// out[rows[i]] = in[tokens[i]]
template <class T>
__device__ void Gather(T* out, const T* in, const int* tokens, const int* rows, long long columns) {
  const T* from = in + tokens[blockIdx.x] * columns;
  T* to = out + rows[blockIdx.x] * columns;
  for (long long j = threadIdx.x; j < columns; j += kMoeThreads) to[j] = from[j];
}

// out[row] = silu(first half of in[row]) · second half, of the rows named.
template <class Out, class In>
__device__ void SiluGate(Out* out, const In* in, const int* rows, long long columns) {
  const long long row = rows[blockIdx.x];
  const In* gate = in + row * 2 * columns;
  for (long long j = threadIdx.x; j < columns; j += kMoeThreads) {
    const float x = static_cast<float>(gate[j]);
    out[row * columns + j] = static_cast<Out>(x / (1 + expf(-x)) * static_cast<float>(gate[columns + j]));
  }
}

}  // namespace
