// Prior of collectives: one latency and one bandwidth for each operator and
// number of ranks,
// t = c0·c·n^growth + ((b·V)^P + (s·V^e·c)^P)^(1/P),
// V the bytes each rank sends in units of 100 kB.
#pragma once

#include <array>

#include "core/ops/form.h"

namespace gpueta {

struct CollectiveForm {
  static constexpr int kDims = 2;  // bytes, ranks
  static constexpr std::array<ParamSpec, 7> kParams = {{
      {"fixed_us", 10, 1, 200},
      {"overlap", 1.5, 1.01, 6},
      {"ramp_power", 0.5, 0.1, 0.95},
      {"ramp", 3, 0.02, 200},
      {"rank_growth", 0.2, 0.001, 2},
      {"latency_factor", 1, 0.1, 20, true},
      {"per_100kb_us", 1, 0.01, 100, true},
  }};
  static constexpr std::array<std::string_view, 2> kFeatures = {"log2 bytes", "log2 ranks"};

  template <class T>
  static GPUETA_INLINE T LatencyUs(const Machine<T>&, const T* p, const T* d) {
    using namespace math;
    const T volume = d[0] * T(1e-5);
    return p[0] * p[5] * Pow(d[1], p[4]) + SmoothMax(p[1], p[6] * volume, p[3] * Pow(volume, p[2]) * p[5]);
  }

  template <class T>
  static GPUETA_INLINE void Features(const Machine<T>&, const T* d, T* f) {
    f[0] = math::Log2(d[0]);
    f[1] = math::Log2(d[1]);
  }
};

}  // namespace gpueta
