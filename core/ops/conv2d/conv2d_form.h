// Physics prior of convolutions: implicit GEMM of M = batch·out_h·out_w rows,
// out_channels columns and depth in_channels/groups·kernel_h·kernel_w.
//
// t = c0 + (Tc^P + Tm^P)^(1/P) + layout, with a rate of its own for the kinds
// libraries treat differently: 3×3 stride 1 (Winograd), 1×1, grouped,
// depthwise, other; `layout` is a pass over the input (NCHW to NHWC, im2col).
#pragma once

#include <array>

#include "core/ops/form.h"

namespace gpueta {

struct Conv2dForm {
  static constexpr int kDims = 16;  // kConv2dDims
  static constexpr std::array<ParamSpec, 12> kParams = {{
      {"fixed_us", 20, 0.05, 500, false, Scales::kFixed},
      {"compute_other", 1.4, 0.2, 10, false, Scales::kCompute},
      {"compute_3x3", 0.9, 0.2, 10, false, Scales::kCompute},
      {"compute_1x1", 1.4, 0.2, 10, false, Scales::kCompute},
      {"compute_depthwise", 4, 0.3, 60, false, Scales::kCompute},
      {"compute_grouped", 2, 0.3, 60, false, Scales::kCompute},
      {"memory", 1.3, 0.2, 10, false, Scales::kMemory},
      {"overlap", 2, 1.02, 8},
      {"balance", 0.5, 0.01, 0.99},
      {"layout", 0.3, 0.01, 10, false, Scales::kMemory},
      {"cache_gain", 0.3, 0.02, 0.97},
      {"depth_overhead", 4, 0.1, 64},  // loop steps' worth of start-up in the reduction
  }};
  static constexpr std::array<std::string_view, 16> kFeatures = {
      "log2 batch", "log2 in_channels", "log2 out_channels", "log2 height", "kernel", "stride", "padding",
      "log2 rows",  "log2 depth",       "log2 flops",        "log2 bytes",  "waste",  "tiles",  "is 3x3",
      "is 1x1",     "log2 groups"};

  template <class T>
  struct Geometry {
    T out_h, out_w, rows, depth, columns, in_bytes, bytes, waves, tiles, is3x3, is1x1, depthwise, grouped;
  };

  template <class T>
  static GPUETA_INLINE Geometry<T> GeometryOf(const Machine<T>& mc, const T* d) {
    using namespace math;
    const T batch = d[0], ci = d[1], h = d[2], w = d[3], co = d[4], kh = d[5], kw = d[6], sh = d[7], sw = d[8];
    const T ph = d[9], pw = d[10], groups = d[11], dh = d[12], dw = d[13], eh = d[14], ew = d[15];
    Geometry<T> g;
    g.out_h = Floor((h + T(2) * ph + eh - dh * (kh - T(1)) - T(0.5)) / sh) + T(1);
    g.out_w = Floor((w + T(2) * pw + ew - dw * (kw - T(1)) - T(0.5)) / sw) + T(1);
    g.out_h = Max(g.out_h, T(1));
    g.out_w = Max(g.out_w, T(1));
    g.rows = batch * g.out_h * g.out_w;
    g.columns = co / groups;
    g.depth = ci / groups * kh * kw;
    g.in_bytes = batch * ci * h * w * mc.a_bytes;
    g.bytes = g.in_bytes + co * g.depth * mc.w_bytes + g.rows * co * mc.out_bytes;
    const auto waves = [&](T tm, T tn) {
      return CeilDiv(groups * CeilDiv(g.rows, tm) * CeilDiv(g.columns, tn), mc.sms) * mc.sms * tm * tn;
    };
    g.waves = Min(Min(waves(T(64), T(64)) * T(1.2), waves(T(128), T(64)) * T(1.1)),
                  Min(waves(T(128), T(128)), waves(T(128), T(32)) * T(1.2)));
    g.tiles = groups * CeilDiv(g.rows, T(128)) * CeilDiv(g.columns, T(64));
    const bool dense = groups == T(1);
    g.depthwise = Select(!dense & (groups == ci), T(1), T(0));
    g.grouped = Select(!dense & (groups != ci), T(1), T(0));
    g.is3x3 = Select(dense & (kh == T(3)) & (kw == T(3)) & (sh == T(1)) & (sw == T(1)), T(1), T(0));
    g.is1x1 = Select(dense & (kh == T(1)) & (kw == T(1)), T(1), T(0));
    return g;
  }

  template <class T>
  static GPUETA_INLINE T LatencyUs(const Machine<T>& mc, const T* p, const T* d) {
    using namespace math;
    const Geometry<T> g = GeometryOf(mc, d);
    const T other = T(1) - g.is3x3 - g.is1x1 - g.depthwise - g.grouped;
    const T rate = p[1] * other + p[2] * g.is3x3 + p[3] * g.is1x1 + p[4] * g.depthwise + p[5] * g.grouped;
    const T area = g.rows * g.columns * d[11];
    // Depthwise kernels have no matrix tiles to fill.
    const T padded = Select(g.depthwise > T(0), area, (T(1) - p[8]) * g.waves + p[8] * area);
    const T compute = rate * T(2) * (g.depth + p[11]) * padded / mc.peak;
    const T memory = p[6] * g.bytes / mc.bandwidth * CacheFactor(g.bytes / mc.l2, p[10], T(0.6), T(2.5));
    return p[0] + SmoothMax(p[7], compute, memory) + p[9] * g.in_bytes / mc.bandwidth;
  }

  template <class T>
  static GPUETA_INLINE void Features(const Machine<T>& mc, const T* d, T* f) {
    using namespace math;
    const Geometry<T> g = GeometryOf(mc, d);
    f[0] = Log2(d[0]);
    f[1] = Log2(d[1]);
    f[2] = Log2(d[4]);
    f[3] = Log2(d[2] * d[3]) * T(0.5);
    f[4] = Log2(d[5] * d[6]) * T(0.5);
    f[5] = Log2(d[7] * d[8]) * T(0.5);
    f[6] = Log2(d[9] + d[10] + T(1));
    f[7] = Log2(g.rows);
    f[8] = Log2(g.depth);
    f[9] = f[7] + f[8] + f[2];
    f[10] = Log2(g.bytes) - Log2(mc.l2);
    f[11] = Log2(g.waves) - Log2(g.rows * g.columns * d[11]);
    f[12] = Log2(g.tiles) - Log2(mc.sms);
    f[13] = g.is3x3;
    f[14] = g.is1x1;
    f[15] = Log2(d[11]);
  }
};

}  // namespace gpueta
