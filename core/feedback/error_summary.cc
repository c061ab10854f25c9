#include "core/feedback/error_summary.h"

#include <algorithm>
#include <cmath>

namespace gpueta {

double QuantileOfSorted(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

ErrorSummary Summarise(std::span<const PredictedAndObserved> pairs) {
  ErrorSummary summary;
  summary.n = static_cast<std::int64_t>(pairs.size());
  if (pairs.empty()) return summary;
  std::vector<double> ape;
  for (const PredictedAndObserved& pair : pairs) {
    const double error = pair.predicted_us.p50 / pair.observed_us - 1;
    ape.push_back(std::abs(error));
    summary.mape += ape.back();
    summary.bias += error;
    summary.below_p50 += pair.observed_us <= pair.predicted_us.p50 ? 1 : 0;
    summary.below_p90 += pair.observed_us <= pair.predicted_us.p90 ? 1 : 0;
    summary.below_p99 += pair.observed_us <= pair.predicted_us.p99 ? 1 : 0;
    summary.p90_width += pair.predicted_us.p90 / pair.predicted_us.p50 - 1;
  }
  const auto n = static_cast<double>(pairs.size());
  for (double* value :
       {&summary.mape, &summary.bias, &summary.below_p50, &summary.below_p90, &summary.below_p99, &summary.p90_width})
    *value /= n;
  std::sort(ape.begin(), ape.end());
  summary.median = QuantileOfSorted(ape, 0.5);
  summary.ape_p90 = QuantileOfSorted(ape, 0.9);
  summary.ape_p99 = QuantileOfSorted(ape, 0.99);
  return summary;
}

}  // namespace gpueta
