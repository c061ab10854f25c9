// Prior of kernels known by what they declare:
// t = c0 + ((a·flops/peak)^P + (b·bytes/BW)^P)^(1/P).
#pragma once

#include <array>

#include "core/ops/form.h"

namespace gpueta {

struct CustomForm {
  static constexpr int kDims = 2;  // flops, bytes
  static constexpr std::array<ParamSpec, 4> kParams = {{
      {"fixed_us", 3, 0.1, 200, true},
      {"compute", 2, 0.3, 200, true},
      {"memory", 1.3, 0.3, 60, true},
      {"overlap", 2, 1.02, 8},
  }};
  static constexpr std::array<std::string_view, 3> kFeatures = {"log2 flops", "log2 bytes", "intensity"};

  template <class T>
  static GPUETA_INLINE T LatencyUs(const Machine<T>& mc, const T* p, const T* d) {
    using namespace math;
    return p[0] + SmoothMax(p[3], p[1] * Max(d[0], T(1)) / mc.peak, p[2] * Max(d[1], T(1)) / mc.bandwidth);
  }

  template <class T>
  static GPUETA_INLINE void Features(const Machine<T>& mc, const T* d, T* f) {
    using namespace math;
    f[0] = Log2(Max(d[0], T(1)));
    f[1] = Log2(Max(d[1], T(1)));
    f[2] = f[0] - f[1] - Log2(mc.peak / mc.bandwidth);
  }
};

}  // namespace gpueta
