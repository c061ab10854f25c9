// Physics priors of fused attention. The forms follow how FlashAttention-2 and
// FlashDecoding split the work (Dao 2023): 128-row query tiles over key blocks
// in prefill; one block of queries for each sequence and kv head, split over
// the cache when there are few, in decode.
#pragma once

#include <array>

#include "core/ops/form.h"

namespace gpueta {

// t = c0 + (Tc^P + Tm^P + Tl^P + Tb^P)^(1/P) + Tw: Tc the tiles under the mask,
// balanced over SMs by rho; Tm the traffic; Tl the latency of the longest row
// of key blocks; Tb a cost for each batch entry; Tw writing keys and values
// into the cache.
struct PrefillForm {
  static constexpr int kDims = 7;  // batch, query_len, kv_len, heads, kv_heads, head_dim, causal
  static constexpr std::array<ParamSpec, 14> kParams = {{
      {"fixed_us", 9, 0.3, 60, true, Scales::kFixed},
      {"compute", 1.6, 0.4, 12, true, Scales::kCompute},
      {"block_latency_us", 0.8, 0.01, 10, true, Scales::kLatency},
      {"read_kv", 1.2, 0.1, 10, true, Scales::kMemory},
      {"read_q", 1.2, 0.1, 10, true, Scales::kMemory},
      {"write_kv", 1.0, 0.02, 20, true, Scales::kMemory},
      {"batch_us", 0.05, 0.001, 5, true, Scales::kLatency},
      {"overlap", 2, 1.02, 10, true},
      {"cache_gain", 0.5, 0.01, 0.97, true},
      {"cache_at", 0.5, 0.05, 6, true},
      {"imbalance", 0.5, 0.01, 0.99, true},
      {"head_dim_power", 0.1, -1, 1, true},
      {"cache_sharpness", 2.5, 0.6, 10, true},
      {"write_cache_gain", 0.5, 0.01, 0.97, true},
  }};
  static constexpr std::array<std::string_view, 15> kFeatures = {
      "log2 batch", "log2 kv_len", "log2 heads",       "log2 kv_heads",  "log2 head_dim",
      "log2 group", "is mha",      "working set",      "clipped ws",     "blocks per SM",
      "log2 work",  "wave waste",  "pad query to 128", "query_len is 1", "log2 query/kv"};

  template <class T>
  struct Geometry {
    T blocks, tiles, chain, query_tiles, kv_bytes, q_bytes;
  };

  template <class T>
  static GPUETA_INLINE Geometry<T> GeometryOf(const Machine<T>& mc, const T* d) {
    using namespace math;
    const T batch = d[0], q = d[1], kv = d[2], heads = d[3], kv_heads = d[4], dim = d[5], causal = d[6];
    Geometry<T> g;
    g.query_tiles = CeilDiv(q, T(128));
    const T key_tiles = CeilDiv(kv, T(128));
    // Key tiles below the diagonal of the last query tile, averaged over query
    // tiles; a cached prefix is seen by all of them.
    const T prefix = Max(kv - q, T(0)) / T(128);
    const T masked = g.query_tiles * prefix + g.query_tiles * (g.query_tiles + T(1)) * T(0.5);
    const T large = Select(causal > T(0), masked, g.query_tiles * key_tiles);
    // Below one tile the kernel pads to 16 rows and finishes early.
    const T q16 = RoundUp(q, T(16)) / T(128), kv16 = RoundUp(kv, T(16)) / T(128);
    const bool small = kv < T(128);
    const T tiny = q16 * kv16 * Select(kv16 < T(0.5), T(0.5), T(0.8));
    g.blocks = batch * heads * g.query_tiles;
    g.tiles = batch * heads * Select(small, tiny, large);
    g.chain = Select(small, kv16 * T(0.7), key_tiles);
    g.kv_bytes = T(2) * batch * kv * kv_heads * dim * mc.kv_bytes;
    g.q_bytes = T(2) * batch * q * heads * dim * mc.a_bytes;
    return g;
  }

  template <class T>
  static GPUETA_INLINE T LatencyUs(const Machine<T>& mc, const T* p, const T* d) {
    using namespace math;
    const Geometry<T> g = GeometryOf(mc, d);
    const T dim = d[5];
    const T dim_factor = Pow(dim / T(128), p[11]);
    const T tile_us = T(4 * 128 * 128) * dim * mc.sms * mc.per_flop;  // one tile on one SM at peak
    const T whole = Max(CeilDivBy(g.blocks, mc.per_sm) * g.tiles / g.blocks, g.chain);
    const T per_sm = (T(1) - p[10]) * g.tiles * mc.per_sm + p[10] * whole;
    const T hit = T(1) / (T(1) + Pow((g.kv_bytes + g.q_bytes) * mc.per_l2 / p[9], p[12]));
    const T compute = p[1] * tile_us * dim_factor * per_sm;
    const T memory = (p[3] * g.kv_bytes + p[4] * g.q_bytes) * mc.per_byte * (T(1) - p[8] * hit);
    const T latency = p[2] * g.chain * dim_factor;
    const T batch_cost = p[6] * d[0] * (T(1) + d[3] / T(8)) * mc.per_sm;
    const T write = p[5] * g.kv_bytes * mc.per_byte * (T(1) - p[13] * hit);
    return p[0] + SmoothMax(p[7], compute, memory, latency, batch_cost) + write;
  }

  template <class T>
  static GPUETA_INLINE void Features(const Machine<T>& mc, const T* d, T* f) {
    using namespace math;
    const Geometry<T> g = GeometryOf(mc, d);
    f[0] = Log2(d[0]);
    f[1] = Log2(d[2]);
    f[2] = Log2(d[3]);
    f[3] = Log2(d[4]);
    f[4] = Log2(d[5]);
    f[5] = f[2] - f[3];
    f[6] = Select(d[3] == d[4], T(1), T(0));
    f[7] = Log2(g.kv_bytes + g.q_bytes) - mc.log2_l2;
    f[8] = Clamp(f[7], T(-4), T(3));
    f[9] = Log2(g.blocks) - mc.log2_sms;
    f[10] = Log2(g.tiles * d[5]);
    f[11] = Log2(CeilDivBy(g.blocks, mc.per_sm) * mc.sms) - Log2(g.blocks);
    f[12] = Log2(g.query_tiles * T(128)) - Log2(d[1]);
    f[13] = Select(d[1] == T(1), T(1), T(0));
    f[14] = Log2(d[1]) - f[1];
  }
};

// t = c0 + (Tm^P + Tc^P + Tl^P + Tb^P)^(1/P): Tm the cache read once, slower
// while too few blocks run to fill the memory system; Tc the products on rows
// padded to 16 queries a kv head; Tl a latency in kv_len that split-KV
// saturates; Tb costs for each sequence.
struct DecodeForm {
  static constexpr int kDims = 7;
  static constexpr std::array<ParamSpec, 14> kParams = {{
      {"fixed_us", 9, 0.3, 60, true, Scales::kFixed},
      {"read", 1.2, 0.3, 6, true, Scales::kMemory},
      {"cache_gain", 0.6, 0.02, 0.98, true},
      {"cache_at", 0.9, 0.05, 6, true},
      {"head_us", 0.3, 0.003, 10, true, Scales::kLatency},
      {"sequence_10ns", 3, 0.05, 60, true, Scales::kLatency},
      {"compute", 1, 0.05, 20, true, Scales::kCompute},
      {"block_latency_us", 0.3, 0.005, 5, true, Scales::kLatency},
      {"overlap", 2, 1.02, 8, true},
      {"split_at", 20, 1, 400, true},
      {"query", 1, 0.05, 40, true, Scales::kMemory},
      {"cache_sharpness", 3, 0.8, 10, true},
      {"balance", 0.7, 0.02, 0.99, true},
      {"fill", 0.3, 0.01, 4, true, Scales::kFill},
  }};
  static constexpr std::array<std::string_view, 14> kFeatures = {
      "log2 batch",  "log2 kv_len", "log2 heads",    "log2 kv_heads",  "log2 head_dim", "log2 group", "is mha",
      "working set", "clipped ws",  "blocks per SM", "log2 kv blocks", "padded group",  "wave waste", "fill"};

  template <class T>
  static GPUETA_INLINE T LatencyUs(const Machine<T>& mc, const T* p, const T* d) {
    using namespace math;
    const T batch = d[0], kv = d[2], heads = d[3], kv_heads = d[4], dim = d[5];
    const T kv_bytes = T(2) * batch * kv * kv_heads * dim * mc.kv_bytes;
    const T q_bytes = T(2) * batch * heads * dim * mc.a_bytes;
    const T blocks = batch * kv_heads;
    const T group = RoundUp(heads / kv_heads, T(16));
    const T waste = Waste(mc, blocks);
    const T wave = (T(1) - p[12]) * waste + p[12];
    const T fill = Clamp(blocks * Max(kv / T(128), T(1)) * mc.per_sm / p[13], T(0.02), T(1));
    const T memory = p[1] * kv_bytes * mc.per_byte * CacheFactor((kv_bytes + q_bytes) * mc.per_l2, p[2], p[3], p[11]) *
                     wave * Pow(fill, T(-0.5));
    const T compute = p[6] * T(4) * blocks * group * kv * dim * mc.per_flop * wave;
    const T latency = p[7] * kv / T(128) / (T(1) + kv / T(128) / p[9]);
    const T sequence = p[4] * blocks * mc.per_sm + p[5] * batch * T(1e-2) + p[10] * q_bytes * mc.per_byte;
    return p[0] + SmoothMax(p[8], memory, compute, latency, sequence);
  }

  // Whole waves over the blocks themselves, once the cache is no longer split.
  template <class T>
  static GPUETA_INLINE T Waste(const Machine<T>& mc, T blocks) {
    using namespace math;
    return Select(blocks >= T(0.8) * mc.sms, CeilDivBy(blocks, mc.per_sm) * mc.sms / blocks, T(1));
  }

  template <class T>
  static GPUETA_INLINE void Features(const Machine<T>& mc, const T* d, T* f) {
    using namespace math;
    const T blocks = d[0] * d[4];
    const T bytes = T(2) * d[0] * d[5] * (d[2] * d[4] * mc.kv_bytes + d[3] * mc.a_bytes);
    f[0] = Log2(d[0]);
    f[1] = Log2(d[2]);
    f[2] = Log2(d[3]);
    f[3] = Log2(d[4]);
    f[4] = Log2(d[5]);
    f[5] = f[2] - f[3];
    f[6] = Select(d[3] == d[4], T(1), T(0));
    f[7] = Log2(bytes) - mc.log2_l2;
    f[8] = Clamp(f[7], T(-4), T(3));
    f[9] = Log2(blocks) - mc.log2_sms;
    f[10] = Log2(Max(d[2] / T(128), T(1)));
    f[11] = Log2(RoundUp(d[3] / d[4], T(16)));
    f[12] = Log2(Waste(mc, blocks));
    f[13] = Clamp(f[9] + f[10], T(-6), T(4));
  }
};

}  // namespace gpueta
