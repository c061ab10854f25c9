#include "core/fit/table_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/fit/family_fit.h"
#include "core/fit/interval_fit.h"
#include "core/fit/launch_fit.h"
#include "core/fit/network.h"
#include "core/fit/residual_fit.h"
#include "core/fit/wave_fit.h"

namespace gpueta {
namespace {

// Rows the parameters of the family form are fitted to; more add nothing.
constexpr std::size_t kFamilyRows = 3000;
// Measured kernels a table remembers.
constexpr std::size_t kMaxMeasured = 4096;

std::vector<std::size_t> RandomPositions(std::size_t count, std::size_t wanted, std::uint64_t seed) {
  std::vector<std::size_t> positions(count);
  for (std::size_t i = 0; i < count; ++i) positions[i] = i;
  std::mt19937_64 random(seed);
  std::shuffle(positions.begin(), positions.end(), random);
  positions.resize(std::min(count, wanted));
  std::sort(positions.begin(), positions.end());
  return positions;
}

}  // namespace

void RememberMeasured(const TableData& data, const Eigen::VectorXd& predicted_ln, double noise_ln, double spread_ln,
                      Table& table) {
  std::map<std::uint32_t, std::pair<double, int>> sums;  // hash to Σ ln(observed/predicted) and count
  for (std::size_t r = 0; r < data.rows.size(); ++r) {
    if (data.rows[r]->kernel.dtype != data.key.dtype) continue;
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

void FillHull(const TableData& data, Table& table) {
  for (Eigen::Index d = 0; d < data.dims.cols(); ++d) {
    table.dim_min.push_back(data.dims.col(d).minCoeff());
    table.dim_max.push_back(data.dims.col(d).maxCoeff());
  }
  table.floor_us = static_cast<float>(std::exp(data.ln_us.minCoeff()));
}

Table FitTable(const TableData& data, std::uint64_t seed, std::vector<std::unique_ptr<Prior>> others) {
  Table table;
  table.key = data.key;
  table.rows = std::count_if(data.rows.begin(), data.rows.end(),
                             [&](const Measurement* row) { return row->kernel.dtype == data.key.dtype; });
  FillHull(data, table);
  const std::vector<std::size_t> positions = RandomPositions(data.rows.size(), kFamilyRows, seed);
  table.variants = FitFamily(positions.size() == data.rows.size() ? data : data.Subset(positions));
  const Eigen::VectorXd family_ln = PredictFamily(data, table.variants);
  ResidualFit residual = FitResidual(data, table.variants, family_ln, seed, std::move(others));
  table.residual = std::move(residual.residual);
  table.interval = IntervalOf(residual.held_out, residual.noise_ln);
  table.cv_mape = static_cast<float>(MapeOf(residual.held_out));
  const Eigen::VectorXd predicted =
      family_ln + EvaluateNetwork(table.residual, data.Features().cast<float>()).cast<double>();
  RememberMeasured(data, predicted, residual.noise_ln, SpreadOf(residual.held_out), table);
  table.kernel_configs = FitKernelConfigs(data);
  LaunchFit of_launch = FitLaunchResidual(data, table, seed);
  table.launch_residual = std::move(of_launch.residual);
  table.launch_interval = of_launch.interval;
  return table;
}

}  // namespace gpueta
