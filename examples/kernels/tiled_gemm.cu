// C[m,n] = A[m,k] · B[k,n] in fp32, all row-major. A block of 256 threads computes
// a tile of 64 × 64, a thread 4 × 4 of it; tiles at the edges are padded with zeros
// and computed in full.
constexpr int kTile = 64;
constexpr int kDepth = 16;
constexpr int kSide = 4;                   // of what a thread computes
constexpr int kAcross = kTile / kSide;     // threads along either side
constexpr int kThreads = kAcross * kAcross;

extern "C" __global__ void __launch_bounds__(kThreads)
    tiled_gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
  __shared__ float a_tile[kDepth][kTile + 1];  // transposed, padded against bank conflicts
  __shared__ float b_tile[kDepth][kTile];
  const int thread = threadIdx.x;
  const int row = blockIdx.y * kTile;
  const int column = blockIdx.x * kTile;
  const int of_row = thread / kAcross * kSide;
  const int of_column = thread % kAcross * kSide;
  float sum[kSide][kSide] = {};
  for (int depth = 0; depth < k; depth += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kThreads) {
      const int r = row + i / kDepth, d = depth + i % kDepth;
      a_tile[i % kDepth][i / kDepth] = r < m && d < k ? a[static_cast<long long>(r) * k + d] : 0.0F;
    }
    for (int i = thread; i < kTile * kDepth; i += kThreads) {
      const int d = depth + i / kTile, s = column + i % kTile;
      b_tile[i / kTile][i % kTile] = d < k && s < n ? b[static_cast<long long>(d) * n + s] : 0.0F;
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      float left[kSide], right[kSide];
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        left[i] = a_tile[d][of_row + i];
        right[i] = b_tile[d][of_column + i];
      }
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
      const int r = row + of_row + i, s = column + of_column + j;
      if (r < m && s < n) c[static_cast<long long>(r) * n + s] = sum[i][j];
    }
  }
}
