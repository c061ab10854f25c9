// How far predictions are from observations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/predict/estimate.h"

namespace gpueta {

struct PredictedAndObserved {
  Quantiles predicted_us;
  double observed_us = 0;   // > 0
  std::uint32_t shape = 0;  // rows of one shape have equal numbers, see confidence.h
};

// APE is |predicted p50/observed − 1|; all errors are fractions.
struct ErrorSummary {
  std::int64_t n = 0;
  double mape = 0;
  double median = 0;  // of the APE
  double ape_p90 = 0;
  double ape_p99 = 0;
  double bias = 0;       // mean of predicted/observed − 1
  double below_p50 = 0;  // share observed at or below the predicted p50
  double below_p90 = 0;
  double below_p99 = 0;
  double p90_width = 0;  // mean of p90/p50 − 1
};

// All zero for no pairs.
ErrorSummary Summarise(std::span<const PredictedAndObserved> pairs);

// Spearman's: how well predictions order what was observed; ties share their
// rank. Nothing where either has fewer than two different values.
std::optional<double> RankCorrelation(std::span<const PredictedAndObserved> pairs);

// Linear between the two nearest ranks, as numpy has it. `sorted` has a value.
double QuantileOfSorted(const std::vector<double>& sorted, double q);

}  // namespace gpueta
