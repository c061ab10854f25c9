#include "core/fit/interval_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace gpueta {
namespace {

constexpr double kZ90 = 1.2816;
constexpr double kZ99 = 2.3263;
constexpr float kMinP90 = 0.01F;
// p99 of heavy-tailed errors where too few rows show it: this many times p90.
constexpr double kTailRatio = 3.0;
constexpr double kDefaultP90 = 0.4;  // with next to no rows

// `held_out` is sorted. With equal weights the ceil((n+1)·q)-th smallest;
// nullopt if there are too few.
std::optional<double> ConformalQuantile(std::span<const HeldOut> held_out, double q) {
  double total = 0;
  double squares = 0;
  for (const HeldOut& row : held_out) {
    total += row.weight;
    squares += row.weight * row.weight;
  }
  if (total <= 0) return std::nullopt;
  const double rows = total * total / squares;  // of equal weight that say as much
  const double wanted = total * q * (rows + 1) / rows * (1 - 1e-12);
  double sum = 0;
  for (const HeldOut& row : held_out) {
    sum += row.weight;
    if (sum >= wanted) return row.ln;
  }
  return std::nullopt;
}

template <class Error>
double WeightedMean(std::span<const HeldOut> held_out, const Error& error) {
  double sum = 0;
  double total = 0;
  for (const HeldOut& row : held_out) {
    sum += row.weight * error(row.ln);
    total += row.weight;
  }
  return total > 0 ? sum / total : 0;
}

}  // namespace

Interval IntervalOf(std::vector<HeldOut> held_out, double noise_ln) {
  std::sort(held_out.begin(), held_out.end(), [](const HeldOut& a, const HeldOut& b) { return a.ln < b.ln; });
  Interval interval;
  interval.measured_p90_ln = static_cast<float>(std::max<double>(kZ90 * noise_ln, kMinP90));
  interval.measured_p99_ln = static_cast<float>(std::max<double>(kTailRatio * kZ90 * noise_ln, kTailRatio * kMinP90));
  const double p90 = std::max<double>(ConformalQuantile(held_out, 0.9).value_or(kDefaultP90), kMinP90);
  const double p99 = ConformalQuantile(held_out, 0.99)
                         .value_or(std::max(kTailRatio * p90, held_out.empty() ? 0.0 : held_out.back().ln));
  interval.p90_ln = static_cast<float>(p90);
  interval.p99_ln = static_cast<float>(std::max(p99, p90 * kZ99 / kZ90));
  interval.measured_p90_ln = std::min(interval.measured_p90_ln, interval.p90_ln);
  interval.measured_p99_ln = std::min(interval.measured_p99_ln, interval.p99_ln);
  return interval;
}

double MapeOf(std::span<const HeldOut> held_out) {
  return WeightedMean(held_out, [](double ln) { return std::abs(std::expm1(-ln)); });
}

double SpreadOf(std::span<const HeldOut> held_out) {
  return std::sqrt(WeightedMean(held_out, [](double ln) { return ln * ln; }));
}

}  // namespace gpueta
