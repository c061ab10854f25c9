// Predictions by what was predicted and what it rests on.
#pragma once

#include <array>
#include <cstdint>

#include "core/ops/kernel.h"
#include "core/predict/estimate.h"

namespace gpueta {

inline constexpr std::size_t kProvenances = static_cast<std::size_t>(Provenance::kEmulated) + 1;

struct PredictionCounts {
  std::array<std::array<std::int64_t, kProvenances>, kAllOps.size()> kernels{};

  void Add(Op op, Provenance provenance, std::int64_t count = 1) {
    kernels[static_cast<std::size_t>(op)][static_cast<std::size_t>(provenance)] += count;
  }
};

}  // namespace gpueta
