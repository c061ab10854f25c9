// What the kernels of examples/kernels compute, in double and without any trick.
#pragma once

#include <vector>

namespace gpueta {

using Floats = std::vector<float>;

struct ProductDims {
  int m, n, k;
};
// C[m,n] of A[m,k] and B[k,n], row-major.
Floats ReferenceProduct(const ProductDims& p, const Floats& a, const Floats& b);

struct AttentionDims {
  int batch, heads, kv_heads, query_len, kv_len, causal;
};
inline constexpr int kHeadDim = 64;
// As flash_attention.cu says.
Floats ReferenceAttention(const AttentionDims& h, const Floats& query, const Floats& key, const Floats& value,
                          float scale);

}  // namespace gpueta
