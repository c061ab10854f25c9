// The loops over rows that are neither form nor network. Each is a function of
// its own so that it is compiled for wide vectors; `rows` may be any number.
#pragma once

#include <cstdint>
#include <span>

#include "core/ops/kernel.h"
#include "core/ops/timing.h"
#include "core/predict/block.h"
#include "core/predict/correction.h"
#include "core/predict/route.h"

namespace gpueta {

// One column of dims for each place of a block.
template <class T>
using DimRows = T[kBlockRows];

// Copies `rows` values as integers and as floats; places up to `padded` repeat
// the first one.
void LoadRows(const std::uint32_t* values, int rows, int padded, std::uint32_t* raw, float* dims);

DimRange RangeOf(std::span<const std::uint32_t> values);  // not empty

// out[r] = us[r]·2^log2[r], within [2^-126, 2^126] whatever the inputs; log2 may
// be null.
void ScaleRows(const float* us, const float* log2, int rows, float* out);
// out[r] = 2^(log2·spread[r]), spread clamped to [kMinSpread, kMaxSpread].
void SpreadRows(float log2, const float* spread, int rows, float* out);
void PowRows(float exponent, int rows, float* values);
// Kernels of fewer bits than the table's. In: what their widths and rates
// promise, and what the table's own type takes. Out: an estimate between both,
// and by how much the promise would have been quicker, at least 1. Weights of
// fewer bits alone keep the promise. Where both operands are narrow half of it
// comes true, in ln: fp8 products as bf16 tables of the same device have them, on
// the two devices whose products were measured in both (docs/serving.md).
void MixNarrowRows(Route::Narrowing narrowing, int rows, float* us, float* wide_us_to_gain);
// Factors reach at least as far as nothing gained: p99 of narrow weights, p90
// and half as far again where both operands are narrow.
void WidenNarrowRows(Route::Narrowing narrowing, int rows, const float* gain, float* p90, float* p99);
void MultiplyRows(const float* a, const float* b, int rows, float* out);
// hidden_us = HiddenUs(work_us[r], quickest_call_us).
void ConvertTimingRows(Timing from, Timing to, float eager_floor_us, float quickest_call_us, const float* work_us,
                       int rows, float* us);

// us[r] *= factor[r], which the curve has for us[r].
void CorrectRows(const CorrectionCurve& curve, int rows, float* us, float* factor);

// Octaves each row lies outside, summed over dims, and whether it does. Dims
// that may be 0 (padding) count from 1.
void OctavesOutside(const DimRows<float>* dims, int count, int rows, const float* low, const float* high,
                    float* octaves, std::uint8_t* outside);
// residual[r] /= 1 + octaves[r]: what was learnt within the hull says less and
// less outside it.
void DampRows(const float* octaves, int rows, float* residual);
// us[r] = max(us[r], limit[r]).
void LimitRows(const float* limit, int rows, float* us);
// factors[r] *= 2^(log2_growth·octaves[r]).
void GrowRows(float log2_growth, const float* octaves, int rows, float* factors);

// A Bloom filter of 32-bit words: a hash chooses a word by its low bits and
// three of the word's bits by others (Putze et al. 2007).
GPUETA_INLINE std::uint32_t FilterBits(std::uint32_t hash) {
  return 1U << (hash >> 27) | 1U << (hash >> 22 & 31) | 1U << (hash >> 17 & 31);
}

// What a table knows of the rows of a block.
struct Known {
  std::span<const float> low;  // hull of the measured dims
  std::span<const float> high;
  std::span<const std::uint32_t> filter;  // of measured hashes, a power of two of words; may be empty
  std::uint32_t label_hash = 0;           // folded
};
struct Sighting {
  int outside = 0;  // dims outside the hull
  int hits = 0;     // rows that may have been measured
};
// Fills hashes (MixDim over the dims, from the label's) and hits, unless the
// filter is empty.
Sighting LookUpRows(const Known& known, const DimRows<float>* dims, const DimRows<std::uint32_t>* raw, int rows,
                    std::uint32_t* hashes, std::uint8_t* hits);

}  // namespace gpueta
