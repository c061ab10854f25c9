// Evaluating forms over blocks of rows. One code path for one row and for a
// million: results are equal to the bit.
#pragma once

#include "core/ops/forms.h"

namespace gpueta {

// Rows a block holds. One row is evaluated by itself; more are padded to a
// multiple of kLanes, the rows past the last one holding valid dims (copies)
// and results that are not used.
inline constexpr int kBlockRows = 128;
inline constexpr int kLanes = 16;  // floats in a vector register of AVX-512

inline int PaddedRows(int rows) { return rows == 1 ? 1 : (rows + kLanes - 1) / kLanes * kLanes; }

struct Block {
  int rows = 0;  // PaddedRows of as many as there are
  alignas(64) float dims[kMaxDims][kBlockRows];
  alignas(64) float us[kBlockRows];        // by the family form alone
  alignas(64) float limit_us[kBlockRows];  // what no kernel is faster than; 0: unknown
  alignas(64) float features[kMaxFeatures][kBlockRows];
  alignas(64) float residual_log2[kBlockRows];  // log2 of what us is to be multiplied by
  alignas(64) float spread[kBlockRows];         // of the interval, see Residual
};

// Reads a value by itself, never as part of a vector: a vector read of what was
// just written value by value waits until it has reached the cache.
inline float ReadAlone(const float& value) { return *const_cast<const volatile float*>(&value); }

// Fills us, limit_us and, when asked, features from dims.
void EvaluateForm(Op op, Attention::Phase phase, const Machine<float>& machine, const float* theta, bool with_features,
                  Block& block);

}  // namespace gpueta
