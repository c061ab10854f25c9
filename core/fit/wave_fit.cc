#include "core/fit/wave_fit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/fit/least_squares.h"
#include "core/predict/wave.h"

namespace gpueta {
namespace {

constexpr std::size_t kMinRows = 8;     // five coefficients and some to spare
constexpr std::size_t kMaxRows = 2000;  // more add nothing to five coefficients
constexpr int kReweightings = 5;
constexpr double kHuber = 0.15;  // relative errors beyond it count less
constexpr std::array kResidentBlocks = {1, 2, 4, 8};

struct WaveFit {
  KernelConfig config;
  double error = INFINITY;
};

// Rows of the regressors over the observed latency, so that the squared error
// is relative.
WaveFit FitOne(const std::vector<const Measurement*>& rows, const std::vector<const Machine<double>*>& machines,
               Tile tile, int resident) {
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd a(n, 5);
  for (Eigen::Index r = 0; r < n; ++r) {
    const auto regressors = WaveRegressors(rows[static_cast<std::size_t>(r)]->kernel,
                                           *machines[static_cast<std::size_t>(r)], tile, resident);
    if (!regressors.has_value()) return {};
    for (int i = 0; i < 5; ++i)
      a(r, i) = (*regressors)[static_cast<std::size_t>(i)] / rows[static_cast<std::size_t>(r)]->latency_us;
  }
  Eigen::VectorXd weights = Eigen::VectorXd::Ones(n);
  Eigen::VectorXd x;
  for (int round = 0; round < kReweightings; ++round) {
    x = SolveNonnegative(weights.asDiagonal() * a, weights);
    const Eigen::ArrayXd error = (a * x).array() - 1;
    weights = (kHuber / error.abs().max(kHuber)).sqrt();
  }
  const Eigen::ArrayXd ratio = (a * x).array().max(1e-6);
  WaveFit fit;
  // Degrees of freedom: the coefficients that are not 0.
  const auto used = static_cast<double>((x.array() > 0).count());
  fit.error = std::sqrt(ratio.log().square().sum() / std::max(1.0, static_cast<double>(n) - used));
  for (int i = 0; i < 5; ++i) fit.config.coefficients[static_cast<std::size_t>(i)] = static_cast<float>(x[i]);
  fit.config.tile_m = tile.m;
  fit.config.tile_n = tile.n;
  fit.config.resident_blocks = resident;
  return fit;
}

}  // namespace

std::vector<KernelConfig> FitKernelConfigs(const TableData& data) {
  std::map<std::string, std::vector<std::size_t>> by_kernel;
  for (std::size_t r = 0; r < data.rows.size(); ++r) {
    const Kernel& kernel = data.rows[r]->kernel;
    if (!TellsLaunch(kernel)) continue;
    std::vector<std::size_t>& rows = by_kernel[std::string(ConfigurationOf(kernel))];
    if (rows.size() < kMaxRows) rows.push_back(r);
  }
  std::vector<KernelConfig> configs;
  for (const auto& [name, positions] : by_kernel) {
    if (positions.size() < kMinRows) continue;
    std::vector<const Measurement*> rows;
    std::vector<const Machine<double>*> machines;
    for (std::size_t p : positions) {
      rows.push_back(data.rows[p]);
      machines.push_back(&data.machines[p]);
    }
    WaveFit best;
    for (int resident : kResidentBlocks) {
      WaveFit fit = FitOne(rows, machines, TileOfKernelName(name).value_or(Tile{}), resident);
      if (fit.error < best.error) best = fit;
    }
    if (!std::isfinite(best.error)) continue;
    best.config.kernel = name;
    best.config.rows = static_cast<std::int64_t>(positions.size());
    best.config.error_ln = static_cast<float>(best.error);
    configs.push_back(std::move(best.config));
  }
  return configs;
}

}  // namespace gpueta
