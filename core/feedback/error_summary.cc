#include "core/feedback/error_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

namespace {

// From 0 up; equal values have the mean of their ranks.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = (static_cast<double>(first + end) - 1) / 2;
    first = end;
  }
  return ranks;
}

}  // namespace

std::optional<double> RankCorrelation(std::span<const PredictedAndObserved> pairs) {
  std::vector<double> predicted, observed;
  for (const PredictedAndObserved& pair : pairs) {
    predicted.push_back(pair.predicted_us.p50);
    observed.push_back(pair.observed_us);
  }
  const std::vector<double> x = RanksOf(predicted), y = RanksOf(observed);
  const double mean = (static_cast<double>(pairs.size()) - 1) / 2;
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
    xy += (x[i] - mean) * (y[i] - mean);
  }
  if (!(xx > 0 && yy > 0)) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

}  // namespace gpueta
