#include "tests/kernels/references.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpueta {

Floats ReferenceProduct(const ProductDims& p, const Floats& a, const Floats& b) {
  Floats c(static_cast<std::size_t>(p.m) * p.n);
  for (int i = 0; i < p.m; ++i) {
    for (int j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int d = 0; d < p.k; ++d) sum += double{a[i * p.k + d]} * b[d * p.n + j];
      c[i * p.n + j] = static_cast<float>(sum);
    }
  }
  return c;
}

Floats ReferenceAttention(const AttentionDims& h, const Floats& query, const Floats& key, const Floats& value,
                          float scale) {
  Floats out(query.size());
  for (int b = 0; b < h.batch; ++b) {
    for (int head = 0; head < h.heads; ++head) {
      const int kv = head / (h.heads / h.kv_heads);
      const float* keys = &key[static_cast<std::size_t>((b * h.kv_heads + kv) * h.kv_len) * kHeadDim];
      const float* values = &value[static_cast<std::size_t>((b * h.kv_heads + kv) * h.kv_len) * kHeadDim];
      for (int q = 0; q < h.query_len; ++q) {
        const auto at = static_cast<std::size_t>((b * h.heads + head) * h.query_len + q) * kHeadDim;
        const int seen = h.causal != 0 ? h.kv_len - h.query_len + q + 1 : h.kv_len;
        std::vector<double> weights;
        double most = -std::numeric_limits<double>::infinity();
        for (int j = 0; j < seen; ++j) {
          double score = 0;
          for (int d = 0; d < kHeadDim; ++d) score += double{query[at + d]} * keys[j * kHeadDim + d];
          weights.push_back(score * scale);
          most = std::max(most, weights.back());
        }
        double total = 0;
        for (double& weight : weights) total += weight = std::exp(weight - most);
        for (int d = 0; d < kHeadDim; ++d) {
          double sum = 0;
          for (int j = 0; j < seen; ++j) sum += weights[static_cast<std::size_t>(j)] * values[j * kHeadDim + d];
          out[at + d] = static_cast<float>(sum / total);
        }
      }
    }
  }
  return out;
}

}  // namespace gpueta
