#include "core/fit/table_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/fit/family_fit.h"
#include "core/fit/network.h"
#include "core/fit/residual_fit.h"
#include "core/fit/wave_fit.h"

namespace gpueta {
namespace {

// Rows the parameters of the family form are fitted to; more add nothing.
constexpr std::size_t kFamilyRows = 3000;
// Measured kernels a table remembers.
constexpr std::size_t kMaxMeasured = 4096;

constexpr double kZ90 = 1.2816;
constexpr double kZ99 = 2.3263;
constexpr float kMinP90 = 0.01F;
// p99 of heavy-tailed errors where too few rows show it: this many times p90.
constexpr double kTailRatio = 3.0;
constexpr double kDefaultP90 = 0.4;  // with next to no rows

std::vector<std::size_t> RandomPositions(std::size_t count, std::size_t wanted, std::uint64_t seed) {
  std::vector<std::size_t> positions(count);
  for (std::size_t i = 0; i < count; ++i) positions[i] = i;
  std::mt19937_64 random(seed);
  std::shuffle(positions.begin(), positions.end(), random);
  positions.resize(std::min(count, wanted));
  std::sort(positions.begin(), positions.end());
  return positions;
}

// The q-quantile as the ceil((n+1)·q)-th smallest; nullopt if n is too small.
std::optional<double> ConformalQuantile(const std::vector<double>& sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil((static_cast<double>(sorted.size()) + 1) * q));
  if (rank < 1 || rank > sorted.size()) return std::nullopt;
  return sorted[rank - 1];
}

void RememberMeasured(const TableData& data, const Eigen::VectorXd& predicted_ln, double noise_ln, double spread_ln,
                      Table& table) {
  std::map<std::uint32_t, std::pair<double, int>> sums;  // hash to Σ ln(observed/predicted) and count
  for (std::size_t r = 0; r < data.rows.size(); ++r) {
    const std::uint32_t hash = HashOf(data.rows[r]->kernel);
    const auto it = sums.find(hash);
    if (it == sums.end() && sums.size() >= kMaxMeasured) continue;
    auto& [sum, count] = sums[hash];
    sum += data.ln_us[static_cast<Eigen::Index>(r)] - predicted_ln[static_cast<Eigen::Index>(r)];
    ++count;
  }
  for (const auto& [hash, sum] : sums) {
    // Shrunk towards the prediction by what is known of the noise.
    const double signal = spread_ln * spread_ln;
    const double shrink = signal / (signal + noise_ln * noise_ln / sum.second);
    table.measured_hash.push_back(hash);
    table.measured_ln.push_back(static_cast<float>(shrink * sum.first / sum.second));
  }
}

}  // namespace

Interval IntervalOf(std::vector<double> held_out_ln, double noise_ln) {
  Interval interval;
  interval.measured_p90_ln = static_cast<float>(std::max<double>(kZ90 * noise_ln, kMinP90));
  interval.measured_p99_ln = static_cast<float>(std::max<double>(kTailRatio * kZ90 * noise_ln, kTailRatio * kMinP90));
  std::sort(held_out_ln.begin(), held_out_ln.end());
  const double p90 = std::max<double>(ConformalQuantile(held_out_ln, 0.9).value_or(kDefaultP90), kMinP90);
  const double p99 = ConformalQuantile(held_out_ln, 0.99)
                         .value_or(std::max(kTailRatio * p90, held_out_ln.empty() ? 0.0 : held_out_ln.back()));
  interval.p90_ln = static_cast<float>(p90);
  interval.p99_ln = static_cast<float>(std::max(p99, p90 * kZ99 / kZ90));
  interval.measured_p90_ln = std::min(interval.measured_p90_ln, interval.p90_ln);
  interval.measured_p99_ln = std::min(interval.measured_p99_ln, interval.p99_ln);
  return interval;
}

void FillHull(const TableData& data, Table& table) {
  for (Eigen::Index d = 0; d < data.dims.cols(); ++d) {
    table.dim_min.push_back(data.dims.col(d).minCoeff());
    table.dim_max.push_back(data.dims.col(d).maxCoeff());
  }
  table.floor_us = static_cast<float>(std::exp(data.ln_us.minCoeff()));
}

Table FitTable(const TableData& data, std::uint64_t seed) {
  Table table;
  table.key = data.key;
  table.rows = data.size();
  FillHull(data, table);
  const std::vector<std::size_t> positions = RandomPositions(data.rows.size(), kFamilyRows, seed);
  table.variants = FitFamily(positions.size() == data.rows.size() ? data : data.Subset(positions));
  const Eigen::VectorXd family_ln = PredictFamily(data, table.variants);
  ResidualFit residual = FitResidual(data, family_ln, seed);
  table.residual = std::move(residual.residual);
  table.interval = IntervalOf(residual.held_out_ln, residual.noise_ln);
  double error = 0;
  double spread = 0;
  for (double e : residual.held_out_ln) {
    error += std::abs(std::expm1(-e)) / static_cast<double>(residual.held_out_ln.size());
    spread += e * e / static_cast<double>(residual.held_out_ln.size());
  }
  table.cv_mape = static_cast<float>(error);
  const Eigen::VectorXd predicted =
      family_ln + EvaluateNetwork(table.residual, data.Features().cast<float>()).cast<double>();
  RememberMeasured(data, predicted, residual.noise_ln, std::sqrt(spread), table);
  table.kernel_configs = FitKernelConfigs(data);
  return table;
}

}  // namespace gpueta
