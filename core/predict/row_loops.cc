#include "core/predict/row_loops.h"

#include <bit>

#include "core/ops/form_math.h"
#include "core/ops/launch_floor.h"
#include "core/predict/clones.h"
#include "core/profile/profile.h"

namespace gpueta {

GPUETA_CLONES void LoadRows(const std::uint32_t* values, int rows, int padded, std::uint32_t* raw, float* dims) {
  for (int r = 0; r < rows; ++r) {
    raw[r] = values[r];
    dims[r] = static_cast<float>(values[r]);
  }
  for (int r = rows; r < padded; ++r) {
    raw[r] = raw[0];
    dims[r] = dims[0];
  }
}

GPUETA_CLONES DimRange RangeOf(std::span<const std::uint32_t> values) {
  std::uint32_t low = values[0];
  std::uint32_t high = values[0];
  for (const std::uint32_t v : values) {
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  return {low, high};
}

GPUETA_CLONES void ScaleRows(const float* us, const float* log2, int rows, float* out) {
  constexpr float kSmallest = 0x1p-126F, kLargest = 0x1p126F;
  constexpr float kLargestResidual = 126;
  if (log2 == nullptr) {
    for (int r = 0; r < rows; ++r) out[r] = math::Clamp(us[r], kSmallest, kLargest);
    return;
  }
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) {
    const float factor = math::Exp2(math::Clamp(log2[r], -kLargestResidual, kLargestResidual));
    out[r] = math::Clamp(us[r] * factor, kSmallest, kLargest);
  }
}

GPUETA_CLONES void SpreadRows(float log2, const float* spread, int rows, float* out) {
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) out[r] = math::Exp2(log2 * math::Clamp(spread[r], kMinSpread, kMaxSpread));
}

GPUETA_CLONES void PowRows(float exponent, int rows, float* values) {
  for (int r = 0; r < rows; ++r) values[r] = math::Pow(values[r], exponent);
}

GPUETA_CLONES void MixNarrowRows(Route::Narrowing narrowing, int rows, float* us, float* wide_us_to_gain) {
  const bool half = narrowing == Route::Narrowing::kOperands;
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) {
    const float promised = math::Min(us[r], wide_us_to_gain[r]);
    const float gain = wide_us_to_gain[r] / promised;
    us[r] = half ? promised * __builtin_sqrtf(gain) : promised;
    wide_us_to_gain[r] = gain;
  }
}

GPUETA_CLONES void WidenNarrowRows(Route::Narrowing narrowing, int rows, const float* gain, float* p90, float* p99) {
  const bool half = narrowing == Route::Narrowing::kOperands;
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) {
    p90[r] = math::Max(p90[r], half ? gain[r] : __builtin_sqrtf(gain[r]));
    p99[r] = math::Max(p99[r], half ? gain[r] * gain[r] : gain[r]);
  }
}

GPUETA_CLONES void MultiplyRows(const float* a, const float* b, int rows, float* out) {
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) out[r] = a[r] * b[r];
}

GPUETA_CLONES void ConvertTimingRows(Timing from, Timing to, float eager_floor_us, float quickest_call_us,
                                     const float* work_us, int rows, float* us) {
  for (int r = 0; r < rows; ++r)
    us[r] = ConvertTiming(us[r], from, to, eager_floor_us, HiddenUs(work_us[r], quickest_call_us));
}

GPUETA_CLONES void CorrectRows(const CorrectionCurve& curve, int rows, float* us, float* factor) {
  constexpr auto kFirstNode = std::bit_cast<std::int32_t>(2.0F);
  constexpr float kNodeDistance = 6 * 0x1p23F;  // octaves, in units in the last place
  const float f0 = curve.factor[0];
  const float step1 = curve.factor[1] - f0;
  const float step2 = curve.factor[2] - curve.factor[1];
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) {
    const float x = static_cast<float>(std::bit_cast<std::int32_t>(us[r]) - kFirstNode) * (1 / kNodeDistance);
    factor[r] = f0 + step1 * math::Clamp(x, 0.0F, 1.0F) + step2 * math::Clamp(x - 1.0F, 0.0F, 1.0F);
    us[r] *= factor[r];
  }
}

GPUETA_CLONES void OctavesOutside(const DimRows<float>* dims, int count, int rows, const float* low, const float* high,
                                  float* octaves, std::uint8_t* outside) {
  using namespace math;
  for (int r = 0; r < rows; ++r) octaves[r] = 0;
  for (int r = 0; r < rows; ++r) outside[r] = 0;
  for (int d = 0; d < count; ++d) {
    const float lo = low[d], hi = high[d];
    const float log2_lo = Log2(Max(lo, 1.0F)), log2_hi = Log2(Max(hi, 1.0F));
#pragma GCC ivdep
    for (int r = 0; r < rows; ++r) {
      const float x = dims[d][r];
      const float log2_x = Log2(Max(x, 1.0F));
      const float above = Select(x > hi, log2_x - log2_hi, 0.0F);
      const float below = Select(x < lo, log2_lo - log2_x, 0.0F);
      octaves[r] += Max(above + below, 0.0F);
      outside[r] |= static_cast<std::uint8_t>(x > hi) | static_cast<std::uint8_t>(x < lo);
    }
  }
}

GPUETA_CLONES void DampRows(const float* octaves, int rows, float* residual) {
  for (int r = 0; r < rows; ++r) residual[r] /= 1.0F + octaves[r];
}

GPUETA_CLONES void LimitRows(const float* limit, int rows, float* us) {
  for (int r = 0; r < rows; ++r) us[r] = math::Max(us[r], limit[r]);
}

GPUETA_CLONES void GrowRows(float log2_growth, const float* octaves, int rows, float* factors) {
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) {
    // Exp2(0) is not 1 to the last bit.
    factors[r] *= math::Select(octaves[r] > 0.0F, math::Exp2(log2_growth * octaves[r]), 1.0F);
  }
}

GPUETA_CLONES Sighting LookUpRows(const Known& known, const DimRows<float>* dims, const DimRows<std::uint32_t>* raw,
                                  int rows, std::uint32_t* hashes, std::uint8_t* hits) {
  Sighting seen;
  for (std::size_t d = 0; d < known.low.size(); ++d) {
    const float low = known.low[d], high = known.high[d];
    int outside = 0;
    for (int r = 0; r < rows; ++r) outside += static_cast<int>(dims[d][r] < low) | static_cast<int>(dims[d][r] > high);
    seen.outside += outside;
  }
  if (known.filter.empty()) return seen;
  for (int r = 0; r < rows; ++r) hashes[r] = known.label_hash;
  for (std::size_t d = 0; d < known.low.size(); ++d) {
#pragma GCC ivdep
    for (int r = 0; r < rows; ++r) hashes[r] = MixDim(hashes[r], raw[d][r]);
  }
  const std::uint32_t* filter = known.filter.data();
  const auto mask = static_cast<std::uint32_t>(known.filter.size() - 1);
  int count = 0;
#pragma GCC ivdep
  for (int r = 0; r < rows; ++r) {
    const std::uint32_t missing = FilterBits(hashes[r]) & ~filter[hashes[r] & mask];
    hits[r] = static_cast<std::uint8_t>(missing == 0);
    count += static_cast<int>(missing == 0);
  }
  seen.hits = count;
  return seen;
}

}  // namespace gpueta
