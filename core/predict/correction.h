// Factors learnt from observations, by which latencies are multiplied.
#pragma once

#include <array>

#include "core/ops/kernel.h"

namespace gpueta {

// Short, medium and long work: what a launch costs and what the device can do
// change independently.
inline constexpr int kSizeClasses = 3;
inline constexpr double kLongestShortUs = 16;
inline constexpr double kLongestMediumUs = 1024;
// Of a latency without correction.
int SizeClassOf(double us);

// No factor is outside these.
inline constexpr float kSmallestCorrection = 0.5F;
inline constexpr float kLargestCorrection = 2.0F;

// The factor as a function of the latency without correction: linear between
// nodes at 2, 128 and 8192 µs in the position on the scale of floats (whole at
// powers of two, linear between them), constant beyond. Nodes lie six octaves
// apart, so that the corrected latency of longer work is never the smaller one,
// whatever factors within the bounds the nodes have.
struct CorrectionCurve {
  std::array<float, kSizeClasses> factor{1, 1, 1};

  bool IsNone() const { return factor == std::array<float, kSizeClasses>{1, 1, 1}; }
  friend bool operator==(const CorrectionCurve&, const CorrectionCurve&) = default;
};

// The factor of one latency without correction.
float FactorAt(const CorrectionCurve& curve, double us);
// The latency without correction that became `us`: x with x·FactorAt(x) = us,
// to a few units in the last place of a float.
double WithoutCorrection(const CorrectionCurve& curve, double us);

// What is learnt for one device.
struct Corrections {
  std::array<CorrectionCurve, kAllOps.size()> kernels;
  CorrectionCurve graphs;  // on top of those of their kernels

  const CorrectionCurve& Of(Op op) const { return kernels[static_cast<std::size_t>(op)]; }
  friend bool operator==(const Corrections&, const Corrections&) = default;
};

}  // namespace gpueta
