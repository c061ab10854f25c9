// Physics prior of memory-bound operators.
//
// t = floor·c0 + ((b·bytes/BW·cache)² + (rows cost)²)^½, with c0, b and the
// rows cost of each operator.
#pragma once

#include <array>

#include "core/ops/form.h"

namespace gpueta {

struct VectorForm {
  static constexpr int kDims = 3;  // rows, cols, operands
  static constexpr std::array<ParamSpec, 7> kParams = {{
      {"fixed_us", 3, 0.05, 120, false, Scales::kFixed},
      {"cache_gain", 0.4, 0.02, 0.97},
      {"cache_at", 0.5, 0.05, 4},
      {"cache_sharpness", 3, 0.5, 10},
      {"fixed_factor", 1, 0.3, 6, true},
      {"memory", 1.2, 0.05, 60, true, Scales::kMemory},
      {"row_ns", 0.3, 0.001, 50, true, Scales::kLatency},
  }};
  static constexpr std::array<std::string_view, 6> kFeatures = {"log2 rows",  "log2 cols", "log2 bytes",
                                                                "clipped ws", "operands",  "cols not multiple 4"};

  template <class T>
  static GPUETA_INLINE T LatencyUs(const Machine<T>& mc, const T* p, const T* d) {
    using namespace math;
    const T bytes = mc.a_bytes * d[0] * d[1] * (d[2] + T(1));
    const T memory = p[5] * bytes * mc.per_byte * CacheFactor(bytes * mc.per_l2, p[1], p[2], p[3]);
    return p[0] * p[4] + SmoothMax(T(2), memory, p[6] * T(1e-3) * d[0]);
  }

  template <class T>
  static GPUETA_INLINE void Features(const Machine<T>& mc, const T* d, T* f) {
    using namespace math;
    f[0] = Log2(d[0]);
    f[1] = Log2(d[1]);
    f[2] = Log2(mc.a_bytes * d[0] * d[1] * (d[2] + T(1))) - mc.log2_l2;
    f[3] = Clamp(f[2], T(-4), T(3));
    f[4] = d[2];
    f[5] = Select(RoundUp(d[1], T(4)) != d[1], T(1), T(0));
  }
};

}  // namespace gpueta
