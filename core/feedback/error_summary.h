// How far predictions are from observations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/predict/estimate.h"

namespace gpueta {

struct PredictedAndObserved {
  Quantiles predicted_us;
  double observed_us = 0;  // > 0
};

// APE is |predicted p50/observed − 1|; all errors are fractions.
struct ErrorSummary {
  std::int64_t n = 0;
  double mape = 0;
  double median = 0;  // of the APE
  double ape_p90 = 0;
  double ape_p99 = 0;
  double bias = 0;       // mean of predicted/observed − 1
  double below_p90 = 0;  // share observed at or below the predicted p90
  double below_p99 = 0;
  double p90_width = 0;  // mean of p90/p50 − 1
};

// All zero for no pairs.
ErrorSummary Summarise(std::span<const PredictedAndObserved> pairs);

}  // namespace gpueta
