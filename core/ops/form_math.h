// Branch-free arithmetic for the forms, so that loops over columns vectorise.
// The float versions are polynomials; the double versions, used for fitting,
// are the library's. They agree to 3e-6 relative.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#define GPUETA_INLINE inline __attribute__((always_inline))

namespace gpueta::math {

// fma keeps results equal to the bit whatever the vector width
// (-ffp-contract=off elsewhere).
GPUETA_INLINE float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

template <class T>
GPUETA_INLINE T Min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
GPUETA_INLINE T Max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
GPUETA_INLINE T Clamp(T x, T lo, T hi) {
  return Min(Max(x, lo), hi);
}
template <class T>
GPUETA_INLINE T Select(bool condition, T yes, T no) {
  return condition ? yes : no;
}

// x > 0, normal. Largest absolute error 2.2e-6.
GPUETA_INLINE float Log2(float x) {
  const std::int32_t bits =
      std::bit_cast<std::int32_t>(x) - 0x3f3504f3;  // sqrt(1/2), so that the mantissa is in [.71, 1.41)
  const float exponent = static_cast<float>(bits >> 23);
  const float f = std::bit_cast<float>((bits & 0x7fffff) + 0x3f3504f3) - 1.0F;
  float p = -0.2065898862789007F;
  p = Fma(p, f, 0.3221543178F);
  p = Fma(p, f, -0.3674902531F);
  p = Fma(p, f, 0.4793480641F);
  p = Fma(p, f, -0.7211318479F);
  p = Fma(p, f, 1.4427134809F);
  return Fma(p, f, exponent);
}
GPUETA_INLINE double Log2(double x) { return std::log2(x); }

// Kept within [2^-126, 2^127]: denormals cost 30 times as much. Relative error
// 2.6e-6. |x| must be below 2^22. The clamp is one of integers, for which there
// are instructions; compilers split loops at clamps of floats.
GPUETA_INLINE float Exp2(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5·2^23: rounds to an integer in the low bits
  const float shifted = x + kRound;
  const float f = x - (shifted - kRound);
  const auto rounded =
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound));
  const std::int32_t n = std::min(std::max(rounded, -125), 126);
  float p = 0.009685706144F;
  p = Fma(p, f, 0.05592202573F);
  p = Fma(p, f, 0.2402186463F);
  p = Fma(p, f, 0.6931210359F);
  p = Fma(p, f, 1.000000151F);
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(p) +
                              static_cast<std::int32_t>(static_cast<std::uint32_t>(n) << 23));
}
GPUETA_INLINE double Exp2(double x) { return std::exp2(Clamp(x, -126.0, 126.0)); }

inline constexpr double kLn2 = 0.693147180559945309;
inline constexpr double kLog2E = 1.442695040888963407;

template <class T>
GPUETA_INLINE T Pow(T x, T exponent) {
  return Exp2(exponent * Log2(x));
}

GPUETA_INLINE float Floor(float x) { return __builtin_floorf(x); }
GPUETA_INLINE double Floor(double x) { return std::floor(x); }

// ceil(x/divisor) for integers x ≥ 1; (x − ½) keeps it right where a float
// quotient would round up to the next integer.
template <class T>
GPUETA_INLINE T CeilDivBy(T x, T reciprocal) {
  return Floor((x - T(0.5)) * reciprocal) + T(1);
}
template <class T>
GPUETA_INLINE T CeilDiv(T x, T divisor) {
  return CeilDivBy(x, T(1) / divisor);
}
template <class T>
GPUETA_INLINE T RoundUp(T x, T multiple) {
  return CeilDiv(x, multiple) * multiple;
}

// (a^p + b^p + …)^(1/p): a smooth maximum that tends to max as p grows.
// Arguments > 0.
template <class T>
GPUETA_INLINE T SmoothMax(T p, T a, T b) {
  const T la = Log2(a), lb = Log2(b);
  const T top = Max(la, lb);
  return Exp2(top + Log2(Exp2(p * (la - top)) + Exp2(p * (lb - top))) * (T(1) / p));
}
template <class T>
GPUETA_INLINE T SmoothMax(T p, T a, T b, T c) {
  const T la = Log2(a), lb = Log2(b), lc = Log2(c);
  const T top = Max(la, Max(lb, lc));
  return Exp2(top + Log2(Exp2(p * (la - top)) + Exp2(p * (lb - top)) + Exp2(p * (lc - top))) * (T(1) / p));
}
template <class T>
GPUETA_INLINE T SmoothMax(T p, T a, T b, T c, T d) {
  const T la = Log2(a), lb = Log2(b), lc = Log2(c), ld = Log2(d);
  const T top = Max(Max(la, ld), Max(lb, lc));
  return Exp2(top + Log2(Exp2(p * (la - top)) + Exp2(p * (lb - top)) + Exp2(p * (lc - top)) + Exp2(p * (ld - top))) *
                        (T(1) / p));
}

// Share of memory traffic that the last-level cache takes away:
// 1 − gain/(1 + (ws/ws0)^sharpness), ws = bytes over cache size.
template <class T>
GPUETA_INLINE T CacheFactor(T ws, T gain, T ws0, T sharpness) {
  return T(1) - gain / (T(1) + Pow(ws * (T(1) / ws0), sharpness));
}

}  // namespace gpueta::math
