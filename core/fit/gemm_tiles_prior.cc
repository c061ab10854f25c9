#include "core/fit/gemm_tiles_prior.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/fit/least_squares.h"
#include "core/fit/order_statistic.h"

namespace gpueta {
namespace {

struct Tile {
  double rows, cols;
  double penalty;  // start of its ln penalty on the rate: small tiles reuse less
};
constexpr std::array<Tile, 9> kTiles = {{{16, 64, 1.3},
                                         {32, 64, 1.0},
                                         {64, 64, 0.5},
                                         {64, 128, 0.25},
                                         {128, 64, 0.25},
                                         {128, 128, 0.08},
                                         {64, 256, 0.08},
                                         {128, 256, 0},
                                         {256, 128, 0}}};
constexpr std::array<double, 4> kSplits = {1, 2, 4, 8};
constexpr double kMinPartK = 128;  // k of one part of a split
constexpr double kPenaltyRange = 1.5;

enum Param : std::size_t {
  kFixed,
  kRate,
  kLatency,
  kOverhead,
  kReduction,
  kRho,
  kSharpness,
  kReadA,
  kReadB,
  kWriteC,
  kCacheGain,
  kCacheAt,
  kCacheSharpness,
  kOverlap,
  kQuantise,
  kPenalties,
  kParamCount = kPenalties + kTiles.size()
};

std::vector<ParamSpec> Params(double smallest_us) {
  std::vector<ParamSpec> params = {
      {"fixed_us", std::clamp(0.9 * smallest_us, 0.35, 110.0), 0.05, 120},
      {"rate", 1.1, 0.3, 6},
      {"latency_ns", 0.3, 0.01, 5},
      {"overhead_us", 0.3, 0.005, 8},
      {"reduction", 1, 0.02, 20},
      {"rho", 0.5, 0.02, 0.98},
      {"sharpness", 6, 2, 20},
      {"read_a", 1.15, 0.3, 6},
      {"read_b", 1.15, 0.3, 6},
      {"write_c", 1.15, 0.1, 8},
      {"cache_gain", 0.5, 0.02, 0.97},
      {"cache_at", 0.6, 0.05, 4},
      {"cache_sharpness", 2.5, 0.5, 8},
      {"overlap", 2.5, 1.05, 12},
      {"quantise", 0.02, 0.001, 60},
  };
  for (const Tile& tile : kTiles) {
    params.push_back({"penalty", tile.penalty, tile.penalty - kPenaltyRange, tile.penalty + kPenaltyRange});
  }
  return params;
}

// What of a row does not depend on the parameters.
struct Row {
  struct Config {
    std::size_t tile;
    double split, waves, ceil_waves, part_k, tiles;
  };
  double batch, m, n, k;
  double a_bytes, b_bytes, c_bytes;
  Machine<double> machine;
  std::array<Config, kTiles.size() * kSplits.size()> configs;
  std::size_t count = 0;
};

Row MakeRow(const Machine<double>& mc, double batch, double m, double n, double k) {
  Row row{.batch = batch, .m = m, .n = n, .k = k, .machine = mc};
  row.a_bytes = batch * m * k * mc.a_bytes;
  row.b_bytes = batch * k * n * mc.w_bytes;
  row.c_bytes = batch * m * n * mc.out_bytes;
  for (std::size_t t = 0; t < kTiles.size(); ++t) {
    const double tiles = batch * std::ceil(m / kTiles[t].rows) * std::ceil(n / kTiles[t].cols);
    for (double split : kSplits) {
      if (split > 1 && k / split < kMinPartK) continue;
      const double waves = tiles * split / mc.sms;
      row.configs[row.count++] = {t, split, waves, std::ceil(waves), std::max(k / split, 32.0), tiles};
    }
  }
  return row;
}

std::vector<Row> MakeRows(const TableData& data) {
  std::vector<Row> rows;
  for (Eigen::Index r = 0; r < data.size(); ++r) {
    rows.push_back(MakeRow(data.machines[static_cast<std::size_t>(r)], data.dims(r, 0), data.dims(r, 1),
                           data.dims(r, 2), data.dims(r, 3)));
  }
  return rows;
}

double ConfigUs(const Row& row, const Row::Config& config, const double* p) {
  const Tile& tile = kTiles[config.tile];
  const double area = tile.rows * tile.cols;
  const double waves = (1 - p[kRho]) * config.ceil_waves + p[kRho] * std::max(config.waves, 1.0);
  double us = p[kRate] * std::exp(p[kPenalties + config.tile]) * waves * 2 * area * config.part_k /
                  (row.machine.peak / row.machine.sms) +
              p[kLatency] * 1e-3 * config.part_k + p[kOverhead] * config.ceil_waves * std::sqrt(area / 16384);
  if (config.split > 1) us += p[kReduction] * (0.5 + config.split * row.c_bytes / row.machine.bandwidth);
  return us;
}

double MemoryUs(const Row& row, const double* p) {
  const double working_set = (row.a_bytes + row.b_bytes + row.c_bytes) / row.machine.l2;
  const double kept = p[kCacheGain] / (1 + std::pow(working_set / p[kCacheAt], p[kCacheSharpness]));
  return (p[kReadA] * row.a_bytes + p[kReadB] * row.b_bytes + p[kWriteC] * row.c_bytes) / row.machine.bandwidth *
         (1 - kept);
}

double LatencyUs(const Row& row, const double* p) {
  std::array<double, kTiles.size() * kSplits.size()> us{};
  double cheapest = std::numeric_limits<double>::max();
  for (std::size_t c = 0; c < row.count; ++c) {
    us[c] = ConfigUs(row, row.configs[c], p);
    cheapest = std::min(cheapest, us[c]);
  }
  double sum = 0;
  for (std::size_t c = 0; c < row.count; ++c) sum += std::pow(us[c] / cheapest, -p[kSharpness]);
  const double compute = cheapest * std::pow(sum, -1 / p[kSharpness]);
  const double quantise = p[kQuantise] * 3 * row.a_bytes / row.machine.bandwidth;
  return p[kFixed] +
         std::pow(std::pow(compute, p[kOverlap]) + std::pow(MemoryUs(row, p), p[kOverlap]), 1 / p[kOverlap]) + quantise;
}

class GemmTilesPrior : public Prior {
 public:
  explicit GemmTilesPrior(std::vector<double> theta) : theta_(std::move(theta)) {}

  Eigen::VectorXd Ln(const TableData& data) const override {
    Eigen::VectorXd ln(data.size());
    const std::vector<Row> rows = MakeRows(data);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      ln[static_cast<Eigen::Index>(r)] = std::log(LatencyUs(rows[r], theta_.data()));
    }
    return ln;
  }

  // Those of the family form, then what the cheapest configuration is like.
  Eigen::MatrixXd Features(const TableData& data) const override {
    constexpr Eigen::Index kOwn = 7;
    const Eigen::MatrixXd family = data.Features();
    Eigen::MatrixXd features(family.rows(), family.cols() + kOwn);
    features.leftCols(family.cols()) = family;
    const std::vector<Row> rows = MakeRows(data);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Row& row = rows[r];
      double best_us = std::numeric_limits<double>::max();
      double second_us = best_us;
      const Row::Config* best = row.configs.data();
      for (std::size_t c = 0; c < row.count; ++c) {
        const double us = ConfigUs(row, row.configs[c], theta_.data());
        if (us < best_us) {
          second_us = best_us;
          best_us = us;
          best = &row.configs[c];
        } else {
          second_us = std::min(second_us, us);
        }
      }
      const double area = kTiles[best->tile].rows * kTiles[best->tile].cols;
      features.row(static_cast<Eigen::Index>(r)).tail(kOwn) << std::log2(best->ceil_waves / std::max(best->waves, 1.0)),
          std::log2(best->waves), std::log2(best->tiles * area / (row.batch * row.m * row.n)), std::log2(best->split),
          std::log2(area), std::log2(second_us / best_us),
          std::clamp(std::log2(best_us / MemoryUs(row, theta_.data())), -4.0, 4.0);
    }
    return features;
  }

 private:
  std::vector<double> theta_;
};

}  // namespace

std::unique_ptr<Prior> FitGemmTilesPrior(const TableData& data) {
  const std::vector<ParamSpec> params = Params(std::exp(NthSmallest(data.ln_us, data.size() / 50)));
  std::vector<double> start;
  for (const ParamSpec& param : params) start.push_back(param.start);
  const std::vector<Row> rows = MakeRows(data);
  constexpr int kIterations = 30;
  return std::make_unique<GemmTilesPrior>(FitBounded(params, start, std::vector<bool>(params.size(), true), rows.size(),
                                                     [&](std::span<const double> theta, std::span<double> out) {
                                                       for (std::size_t r = 0; r < rows.size(); ++r) {
                                                         out[r] = std::log(LatencyUs(rows[r], theta.data())) -
                                                                  data.ln_us[static_cast<Eigen::Index>(r)];
                                                       }
                                                     },
                                                     {.max_iterations = kIterations}));
}

}  // namespace gpueta
