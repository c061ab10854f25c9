// Physics prior of matrix products.
//
// t = c0 + (Tc^P + Tm^P + Tk^P)^(1/P) + quantisation, where
// - Tc: tensor or vector units on padded work: (1−rho) of the work as whole
//   waves of the cheapest tile, rho of it as 64×64 tiles that balance perfectly;
// - Tm: operands and result over the memory bandwidth, less what the cache
//   keeps;
// - Tk: the latency of the loop over k, which saturates at ks.
// The tiles and the starting values come from fits to public measurements
// (docs/accuracy.md).
#pragma once

#include <array>

#include "core/ops/form.h"

namespace gpueta {

struct GemmForm {
  static constexpr int kDims = 4;  // batch, m, n, k
  static constexpr std::array<ParamSpec, 12> kParams = {{
      {"fixed_us", 2.5, 0.05, 120, true, Scales::kFixed},
      {"compute", 1.3, 0.3, 8, true, Scales::kCompute},
      {"read", 1.15, 0.4, 8, false, Scales::kMemory},
      {"write", 1.15, 0.2, 20, false, Scales::kMemory},
      {"cache_gain", 0.5, 0.02, 0.97},
      {"k_latency_ns", 1.3, 0.02, 30, false, Scales::kLatency},
      {"k_saturation", 2000, 100, 30000},
      {"balance", 0.8, 0.01, 0.99},
      {"overlap", 2.5, 1.02, 12},
      {"cache_at", 0.5, 0.05, 3},
      {"cache_sharpness", 2.5, 0.5, 8},
      {"quantise", 0.02, 0.001, 60, false, Scales::kMemory},  // dynamic scaling of A: reads it twice, writes it once
  }};
  static constexpr std::array<std::string_view, 15> kFeatures = {
      "log2 m",           "log2 n",      "log2 k",    "waste 64x64", "waste 128x128",
      "waste 128x256",    "pad m to 64", "intensity", "working set", "tiles 128 per SM",
      "m not multiple 8", "pad m to 8",  "m is 1",    "clipped ws",  "log2 batch"};

  template <class T>
  struct Work {
    T balanced, waves64, waves128, waves128x256, cheapest;
  };

  // Padded work in elements of C, as whole waves of each tile.
  template <class T>
  static GPUETA_INLINE Work<T> WorkOf(const Machine<T>& mc, T batch, T m, T n) {
    using namespace math;
    const T m64 = CeilDiv(m, T(64)), m128 = CeilDiv(m, T(128)), m256 = CeilDiv(m, T(256));
    const T n64 = CeilDiv(n, T(64)), n128 = CeilDiv(n, T(128)), n256 = CeilDiv(n, T(256));
    const auto waves = [&](T tiles, T area) { return CeilDivBy(batch * tiles, mc.per_sm) * mc.sms * area; };
    Work<T> work;
    work.balanced = batch * m64 * n64 * T(4096);
    work.waves64 = waves(m64 * n64, T(4096));
    work.waves128 = waves(m128 * n128, T(16384));
    work.waves128x256 = waves(m128 * n256, T(32768));
    // Small tiles reuse less: each has a penalty on its rate.
    const T narrow = Min(waves(m128 * n64, T(8192)), waves(m64 * n128, T(8192))) * T(1.15);
    const T wide = Min(work.waves128x256, waves(m256 * n128, T(32768)));
    work.cheapest = Min(Min(work.waves64 * T(1.3), narrow), Min(work.waves128 * T(1.05), wide));
    return work;
  }

  template <class T>
  static GPUETA_INLINE T LatencyUs(const Machine<T>& mc, const T* p, const T* d) {
    using namespace math;
    const T batch = d[0], m = d[1], n = d[2], k = d[3];
    const Work<T> work = WorkOf(mc, batch, m, n);
    const T compute = T(2) * k * p[1] * ((T(1) - p[7]) * work.cheapest + p[7] * work.balanced) * mc.per_flop;
    const T read = batch * k * (m * mc.a_bytes + n * mc.w_bytes);
    const T write = batch * m * n * mc.out_bytes;
    const T memory =
        (p[2] * read + p[3] * write) * mc.per_byte * CacheFactor((read + write) * mc.per_l2, p[4], p[9], p[10]);
    const T latency = p[5] * T(1e-3) * k / (T(1) + k * (T(1) / p[6]));
    const T quantise = p[11] * T(3) * mc.a_bytes * batch * m * k * mc.per_byte;
    return p[0] + SmoothMax(p[8], compute, memory, latency) + quantise;
  }

  // Peak and bandwidth, or what was fitted where the device exceeds them; what
  // fits into the cache may lie there already.
  template <class T>
  static GPUETA_INLINE T LimitUs(const Machine<T>& mc, const T* p, const T* d) {
    using namespace math;
    const T batch = d[0], m = d[1], n = d[2], k = d[3];
    const T usual = T(1 / kAboveDataSheet);
    const T compute = T(2) * batch * m * n * k * mc.per_flop * Min(p[1], usual);
    const T bytes = batch * (k * (m * mc.a_bytes + n * mc.w_bytes) + m * n * mc.out_bytes);
    const T memory = Max(bytes - mc.l2, T(0)) * mc.per_byte * Min(Min(p[2], p[3]), usual);
    return Max(compute, memory);
  }

  template <class T>
  static GPUETA_INLINE void Features(const Machine<T>& mc, const T* d, T* f) {
    using namespace math;
    const T batch = d[0], m = d[1], n = d[2], k = d[3];
    const Work<T> work = WorkOf(mc, batch, m, n);
    const T lm = Log2(m), ln = Log2(n), lk = Log2(k), lb = Log2(batch);
    const T area = lm + ln + lb;
    const T bytes = Log2(batch * (k * (m * mc.a_bytes + n * mc.w_bytes) + m * n * mc.out_bytes));
    const T m8 = RoundUp(m, T(8));
    f[0] = lm;
    f[1] = ln;
    f[2] = lk;
    f[3] = Log2(work.waves64) - area;
    f[4] = Log2(work.waves128) - area;
    f[5] = Log2(work.waves128x256) - area;
    f[6] = Log2(RoundUp(m, T(64))) - lm;
    f[7] = T(1) + area + lk - bytes - mc.log2_ridge;
    f[8] = bytes - mc.log2_l2;
    f[9] = Log2(batch * CeilDiv(m, T(128)) * CeilDiv(n, T(128))) - mc.log2_sms;
    f[10] = Select(m8 != m, T(1), T(0));
    f[11] = Log2(m8) - lm;
    f[12] = Select(m == T(1), T(1), T(0));
    f[13] = Clamp(f[8], T(-4), T(3));
    f[14] = lb;
  }
};

}  // namespace gpueta
