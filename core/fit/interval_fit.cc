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

// The ceil((n+1)·q)-th smallest of the sorted values; nullopt if there are too
// few.
std::optional<double> ConformalQuantile(std::span<const double> sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(static_cast<double>(sorted.size() + 1) * q));
  if (rank < 1 || rank > sorted.size()) return std::nullopt;
  return sorted[rank - 1];
}

template <class Error>
double Mean(std::span<const HeldOut> held_out, const Error& error) {
  double sum = 0;
  for (const HeldOut& row : held_out) sum += error(row.ln);
  return held_out.empty() ? 0 : sum / static_cast<double>(held_out.size());
}

}  // namespace

std::vector<HeldOut> HeldOutErrors(const Eigen::VectorXd& ln) {
  return HeldOutErrors(ln, Eigen::VectorXd::Ones(ln.size()));
}

std::vector<HeldOut> HeldOutErrors(const Eigen::VectorXd& ln, const Eigen::VectorXd& spread) {
  std::vector<HeldOut> errors;
  for (Eigen::Index r = 0; r < ln.size(); ++r) errors.push_back({ln[r], spread[r]});
  return errors;
}

Interval IntervalOf(std::span<const HeldOut> held_out, double noise_ln) {
  std::vector<double> scaled;
  for (const HeldOut& row : held_out) scaled.push_back(row.ln / row.spread);
  std::sort(scaled.begin(), scaled.end());
  Interval interval;
  interval.measured_p90_ln = static_cast<float>(std::max<double>(kZ90 * noise_ln, kMinP90));
  interval.measured_p99_ln = static_cast<float>(std::max<double>(kTailRatio * kZ90 * noise_ln, kTailRatio * kMinP90));
  const double p90 = std::max<double>(ConformalQuantile(scaled, 0.9).value_or(kDefaultP90), kMinP90);
  const double p99 =
      ConformalQuantile(scaled, 0.99).value_or(std::max(kTailRatio * p90, scaled.empty() ? 0.0 : scaled.back()));
  interval.p90_ln = static_cast<float>(p90);
  interval.p99_ln = static_cast<float>(std::max(p99, p90 * kZ99 / kZ90));
  interval.measured_p90_ln = std::min(interval.measured_p90_ln, interval.p90_ln);
  interval.measured_p99_ln = std::min(interval.measured_p99_ln, interval.p99_ln);
  return interval;
}

double MapeOf(std::span<const HeldOut> held_out) {
  return Mean(held_out, [](double ln) { return std::abs(std::expm1(-ln)); });
}

double SpreadOf(std::span<const HeldOut> held_out) {
  return std::sqrt(Mean(held_out, [](double ln) { return ln * ln; }));
}

}  // namespace gpueta
