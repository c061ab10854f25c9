// Physics prior of the fused expert feed-forward.
//
// t = c0 + (Tc^P + Tm^P)^(1/P) + routing + per-expert cost. Rows a rank sees:
// T·k·ep^−gamma (tokens are not spread evenly: the busiest rank counts);
// active experts (E/ep)·(1 − exp(−(T·k/E)^zeta)).
#pragma once

#include <array>

#include "core/ops/form.h"

namespace gpueta {

struct MoeForm {
  static constexpr int kDims = 7;  // num_tokens, hidden_size, inter_size, top_k, num_experts, tp, ep
  static constexpr std::array<ParamSpec, 11> kParams = {{
      {"fixed_us", 20, 0.5, 300, false, Scales::kFixed},
      {"compute", 1.8, 0.2, 30, false, Scales::kCompute},
      {"memory", 1.2, 0.2, 20, false, Scales::kMemory},
      {"routing", 1, 0.01, 20, false, Scales::kMemory},
      {"expert_100ns", 0.2, 0.001, 50, false, Scales::kLatency},
      {"overlap", 2, 1.02, 8},
      {"cache_gain", 0.3, 0.01, 0.95},
      {"cache_at", 0.5, 0.02, 5},
      {"unpadded", 0.5, 0.01, 0.99},
      {"rank_spread", 0.6, 0.1, 1.1},
      {"expert_spread", 0.8, 0.3, 1.5},
  }};
  static constexpr std::array<std::string_view, 13> kFeatures = {
      "log2 tokens",        "log2 hidden", "log2 inter", "log2 top_k",  "log2 experts",
      "log2 local experts", "log2 ep",     "log2 rows",  "rows/expert", "active",
      "log2 flops",         "log2 bytes",  "waves"};

  template <class T>
  static GPUETA_INLINE T LatencyUs(const Machine<T>& mc, const T* p, const T* d) {
    using namespace math;
    const T tokens = d[0], hidden = d[1], inter = d[2] / d[5], top_k = d[3], experts = d[4], ep = d[6];
    const T local = Max(experts / ep, T(1));
    const T rows = tokens * top_k * Pow(ep, -p[9]);
    const T spread = Pow(tokens * top_k / experts, p[10]);
    T active = local * (T(1) - Exp2(-T(kLog2E) * spread));
    active = Min(Max(active, Min(T(1), rows)), Max(rows, T(1)));
    const T each = Max(rows / active, T(1));
    const T tile = Select(each <= T(16), T(16), Select(each <= T(64), T(32), T(64)));
    const T padded = active * RoundUp(each, tile);
    const T weights = active * T(3) * hidden * inter * mc.w_bytes;
    const T activations = (T(2) * tokens * hidden + rows * (T(2) * inter + T(2) * hidden)) * mc.a_bytes;
    const T factor = CacheFactor((weights + activations) * mc.per_l2, p[6], p[7], T(2.5));
    const T compute =
        p[1] * T(6) * hidden * inter * Pow(padded, T(1) - p[8]) * Pow(Max(rows, T(1e-3)), p[8]) * mc.per_flop;
    const T memory = p[2] * (weights + activations) * mc.per_byte * factor;
    return p[0] + SmoothMax(p[5], compute, memory) + p[3] * activations * mc.per_byte + p[4] * active * T(0.1);
  }

  template <class T>
  static GPUETA_INLINE void Features(const Machine<T>& mc, const T* d, T* f) {
    using namespace math;
    const T inter = d[2] / d[5];
    const T local = Max(d[4] / d[6], T(1));
    const T rows = d[0] * d[3] / d[6];
    const T active = Max(local * (T(1) - Exp2(-T(kLog2E) * d[0] * d[3] / d[4])), T(1e-3));
    const T each = Max(rows / active, T(1));
    const T weights = active * T(3) * d[1] * inter * mc.w_bytes;
    const T activations = (T(2) * d[0] * d[1] + rows * (T(2) * inter + T(2) * d[1])) * mc.a_bytes;
    f[0] = Log2(d[0]);
    f[1] = Log2(d[1]);
    f[2] = Log2(inter);
    f[3] = Log2(d[3]);
    f[4] = Log2(d[4]);
    f[5] = Log2(local);
    f[6] = Log2(d[6]);
    f[7] = Log2(rows);
    f[8] = Log2(each);
    f[9] = Log2(active);
    f[10] = f[7] + f[1] + f[2];
    f[11] = Log2(weights + activations) - mc.log2_l2;
    f[12] = Log2(CeilDiv(Max(active * CeilDiv(each, T(64)) * CeilDiv(T(2) * inter, T(128)), T(1)), mc.sms));
  }
};

}  // namespace gpueta
