// Error figures that can be kept for long and merged, unlike ErrorSummary's
// rows.
#pragma once

#include <cstdint>

#include "core/feedback/error_sketch.h"
#include "core/feedback/error_summary.h"

namespace gpueta {

// ln(predicted p50/observed).
double LnErrorOf(const PredictedAndObserved& pair);

struct ErrorStats {
  ErrorSketch errors;
  std::int64_t below_p50 = 0;  // observed at or below the predicted p50
  std::int64_t below_p90 = 0;
  std::int64_t below_p99 = 0;
  double p90_width = 0;  // sum of p90/p50 − 1

  std::int64_t count() const { return errors.count(); }
  void Add(const PredictedAndObserved& pair) { Add(pair, ErrorSketch::BinOf(LnErrorOf(pair))); }
  // The same for who adds a pair to several: `bin` is that of its error.
  void Add(const PredictedAndObserved& pair, ErrorSketch::Bin bin);
  void Merge(const ErrorStats& other);
};

// The same figures as Summarise has of the rows, quantiles within the sketch's
// error. Means do not follow outliers: no error counts for more than five times
// the p90 of the APE, which a normal or exponential distribution passes in less
// than one case of 10,000.
ErrorSummary SummaryOf(const ErrorStats& stats);

// The latest errors: each observation fades by a factor of 1 − 1/kMemory with
// each one after it. Errors count as at most five times the mean APE so far, and
// a factor of 1000.
class RecentErrors {
 public:
  static constexpr double kMemory = 200;

  void Add(const PredictedAndObserved& pair);

  double weight = 0;  // observations, faded; the figures are sums with these weights
  double ape = 0;
  double ln_error = 0;
  double below_p90 = 0;
  double below_p99 = 0;

  // 0 before the first observation.
  double Mape() const { return weight > 0 ? ape / weight : 0; }
  double LnBias() const { return weight > 0 ? ln_error / weight : 0; }
  double BelowP90() const { return weight > 0 ? below_p90 / weight : 0; }
  double BelowP99() const { return weight > 0 ? below_p99 / weight : 0; }
};

}  // namespace gpueta
