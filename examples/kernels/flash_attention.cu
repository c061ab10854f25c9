// Attention forward in fp32 for heads of 64, after FlashAttention (Dao et al.
// 2022): keys and values pass through shared memory tile by tile, and a running
// maximum and sum stand for the softmax, so that no scores are stored.
// out[batch, heads, query_len, 64] of query (the same shape), key and value
// [batch, kv_heads, kv_len, 64]; heads must be a multiple of kv_heads. A thread has
// one query. Causal: the last query sees all keys, each one before it one less.
constexpr int kHeadDim = 64;
constexpr int kQueries = 64;  // of a block; its threads too
constexpr int kKeys = 32;     // of a tile

extern "C" __global__ void __launch_bounds__(kQueries)
    flash_attention_d64(const float* __restrict__ query, const float* __restrict__ key,
                        const float* __restrict__ value, float* __restrict__ out, int heads, int kv_heads,
                        int query_len, int kv_len, int causal, float scale) {
  __shared__ float key_tile[kKeys][kHeadDim];
  __shared__ float value_tile[kKeys][kHeadDim];
  const int head = blockIdx.y, batch = blockIdx.z;
  const int first = blockIdx.x * kQueries;
  const int row = first + threadIdx.x;
  const int kv_head = head / (heads / kv_heads);
  const long long of_query = (static_cast<long long>(batch) * heads + head) * query_len * kHeadDim;
  const long long of_kv = (static_cast<long long>(batch) * kv_heads + kv_head) * kv_len * kHeadDim;

  float q[kHeadDim], sum[kHeadDim];
#pragma unroll
  for (int d = 0; d < kHeadDim; ++d) {
    q[d] = row < query_len ? query[of_query + static_cast<long long>(row) * kHeadDim + d] * scale : 0.0F;
    sum[d] = 0.0F;
  }
  float most = -INFINITY, total = 0.0F;
  // Keys that the row, and any row of the block, may see.
  const int beyond = causal != 0 ? kv_len - query_len + row + 1 : kv_len;
  const int last_row = first + kQueries < query_len ? first + kQueries : query_len;
  const int end = causal != 0 ? kv_len - query_len + last_row : kv_len;
  for (int start = 0; start < end; start += kKeys) {
    for (int i = threadIdx.x; i < kKeys * kHeadDim; i += kQueries) {
      const int r = start + i / kHeadDim;
      const long long at = of_kv + static_cast<long long>(r) * kHeadDim + i % kHeadDim;
      key_tile[i / kHeadDim][i % kHeadDim] = r < kv_len ? key[at] : 0.0F;
      value_tile[i / kHeadDim][i % kHeadDim] = r < kv_len ? value[at] : 0.0F;
    }
    __syncthreads();
    for (int j = 0; j < kKeys && start + j < beyond; ++j) {
      float score = 0.0F;
#pragma unroll
      for (int d = 0; d < kHeadDim; ++d) score = fmaf(q[d], key_tile[j][d], score);
      const float higher = fmaxf(most, score);
      const float shrink = expf(most - higher), weight = expf(score - higher);
      most = higher;
      total = total * shrink + weight;
#pragma unroll
      for (int d = 0; d < kHeadDim; ++d) sum[d] = fmaf(weight, value_tile[j][d], sum[d] * shrink);
    }
    __syncthreads();
  }
  if (row >= query_len) return;
#pragma unroll
  for (int d = 0; d < kHeadDim; ++d)
    out[of_query + static_cast<long long>(row) * kHeadDim + d] = total > 0.0F ? sum[d] / total : 0.0F;
}
