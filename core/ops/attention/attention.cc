#include "core/ops/attention/attention.h"

#include <algorithm>

namespace gpueta {

std::string_view Name(Attention::Phase phase) {
  switch (phase) {
    case Attention::Phase::kPrefill: return "prefill";
    case Attention::Phase::kDecode: return "decode";
  }
  return "?";
}

std::optional<Attention::Phase> ParseAttentionPhase(std::string_view name) {
  for (auto phase : {Attention::Phase::kPrefill, Attention::Phase::kDecode}) {
    if (Name(phase) == name) return phase;
  }
  return std::nullopt;
}

Counts CountsOf(const Attention& a, DType dtype) {
  // Query i of q sees kv − q + i + 1 keys.
  const Count all = Product({a.query_len, a.kv_len});
  const Count upper = Product({a.query_len, a.query_len - 1});
  const Count pairs = all.overflowed() || upper.overflowed() || a.causal == 0
                          ? all
                          : Count(std::max<std::int64_t>(all.value() - upper.value() / 2, 0));
  Counts counts;
  counts.macs = 2 * Product({a.batch, a.heads, a.head_dim}) * pairs;
  counts.flops = 2 * counts.macs;
  const Count query = Product({a.batch, a.query_len, a.heads, a.head_dim});
  const Count cache = Product({2, a.batch, a.kv_len, a.kv_heads, a.head_dim});
  const int bits = BitsOf(dtype).activation;
  counts.bytes_read = BytesOf(query, bits) + BytesOf(cache, BitsOf(a.kv_dtype).activation);
  counts.bytes_written = BytesOf(query, bits);
  return counts;
}

}  // namespace gpueta
