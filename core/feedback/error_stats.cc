#include "core/feedback/error_stats.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gpueta {
namespace {

constexpr double kOutlier = 5;
constexpr double kLeastOutlier = 0.05;  // RecentErrors only: a mean of few may be near 0

// Values with how often each occurs, ascending.
double QuantileOf(const std::vector<std::pair<double, double>>& sorted, double n, double q) {
  double seen = 0;
  for (const auto& [value, count] : sorted) {
    seen += count;
    if (seen > q * (n - 1)) return value;
  }
  return sorted.back().first;
}

}  // namespace

double LnErrorOf(const PredictedAndObserved& pair) { return std::log(pair.predicted_us.p50 / pair.observed_us); }

void ErrorStats::Add(const PredictedAndObserved& pair, ErrorSketch::Bin bin) {
  errors.Add(bin);
  below_p50 += pair.observed_us <= pair.predicted_us.p50 ? 1 : 0;
  below_p90 += pair.observed_us <= pair.predicted_us.p90 ? 1 : 0;
  below_p99 += pair.observed_us <= pair.predicted_us.p99 ? 1 : 0;
  p90_width += pair.predicted_us.p90 / pair.predicted_us.p50 - 1;
}

void ErrorStats::Merge(const ErrorStats& other) {
  errors.Merge(other.errors);
  below_p50 += other.below_p50;
  below_p90 += other.below_p90;
  below_p99 += other.below_p99;
  p90_width += other.p90_width;
}

ErrorSummary SummaryOf(const ErrorStats& stats) {
  ErrorSummary summary;
  summary.n = stats.count();
  if (summary.n == 0) return summary;
  const auto n = static_cast<double>(summary.n);
  std::vector<std::pair<double, double>> apes;
  for (const ErrorSketch::Bin& bin : stats.errors.bins())
    apes.emplace_back(std::abs(std::expm1(ErrorSketch::ValueOf(bin.index))), bin.count);
  std::sort(apes.begin(), apes.end());
  summary.median = QuantileOf(apes, n, 0.5);
  summary.ape_p90 = QuantileOf(apes, n, 0.9);
  summary.ape_p99 = QuantileOf(apes, n, 0.99);
  const double most = kOutlier * summary.ape_p90;
  for (const ErrorSketch::Bin& bin : stats.errors.bins()) {
    const double error = std::clamp(std::expm1(ErrorSketch::ValueOf(bin.index)), -most, most);
    summary.mape += bin.count * std::abs(error) / n;
    summary.bias += bin.count * error / n;
  }
  summary.below_p50 = static_cast<double>(stats.below_p50) / n;
  summary.below_p90 = static_cast<double>(stats.below_p90) / n;
  summary.below_p99 = static_cast<double>(stats.below_p99) / n;
  summary.p90_width = stats.p90_width / n;
  return summary;
}

void RecentErrors::Add(const PredictedAndObserved& pair) {
  double error = std::clamp(LnErrorOf(pair), -ErrorSketch::kLargest, ErrorSketch::kLargest);
  double one_ape = std::abs(std::expm1(error));
  if (weight > 0) {
    const double most = std::max(kOutlier * Mape(), kLeastOutlier);
    one_ape = std::min(one_ape, most);
    error = std::clamp(error, -most, most);
  }
  constexpr double kFade = 1 - 1 / kMemory;
  const auto fade = [](double& sum, double value) { sum = kFade * sum + value; };
  fade(weight, 1);
  fade(ape, one_ape);
  fade(ln_error, error);
  fade(below_p90, pair.observed_us <= pair.predicted_us.p90 ? 1 : 0);
  fade(below_p99, pair.observed_us <= pair.predicted_us.p99 ? 1 : 0);
}

}  // namespace gpueta
