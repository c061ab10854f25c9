#include "core/fit/launch_fit.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "core/fit/exact_model.h"
#include "core/fit/family_fit.h"
#include "core/fit/interval_fit.h"
#include "core/fit/network.h"
#include "core/fit/synthetic_shapes.h"
#include "core/ops/launch.h"

namespace gpueta {
namespace {

constexpr std::size_t kMinRows = 60;
constexpr std::size_t kMaxRows = 1500;  // an exact model of more takes too long
constexpr std::size_t kSyntheticShapes = 15000;
constexpr double kMinNoise = 0.003;

// Features of the family form, then those of the launch.
Eigen::MatrixXd FeaturesOf(const TableData& data) {
  const Eigen::MatrixXd shape = data.Features();
  Eigen::MatrixXd features(shape.rows(), shape.cols() + kLaunchFeatures);
  features.leftCols(shape.cols()) = shape;
  for (Eigen::Index r = 0; r < shape.rows(); ++r) {
    const auto row = static_cast<std::size_t>(r);
    const auto launch = LaunchFeatures(data.rows[row]->kernel, data.machines[row]);
    for (int f = 0; f < kLaunchFeatures; ++f)
      features(r, shape.cols() + f) = launch.has_value() ? (*launch)[static_cast<std::size_t>(f)] : 0;
  }
  return features;
}

class LaunchPrior : public Prior {
 public:
  explicit LaunchPrior(std::vector<Variant> variants) : variants_(std::move(variants)) {}
  Eigen::VectorXd Ln(const TableData& data) const override { return PredictFamily(data, variants_); }
  Eigen::MatrixXd Features(const TableData& data) const override { return FeaturesOf(data); }

 private:
  std::vector<Variant> variants_;
};

// Rows that tell their launch; some of them where they are many.
std::vector<std::size_t> RowsWithLaunch(const TableData& data, std::uint64_t seed) {
  std::vector<std::size_t> rows;
  for (std::size_t r = 0; r < data.rows.size(); ++r) {
    if (LaunchFeatures(data.rows[r]->kernel, data.machines[r]).has_value()) rows.push_back(r);
  }
  std::mt19937_64 random(seed);
  std::shuffle(rows.begin(), rows.end(), random);
  rows.resize(std::min(rows.size(), kMaxRows));
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace

LaunchFit FitLaunchResidual(const TableData& data, const std::vector<Variant>& variants, double mape,
                            std::uint64_t seed) {
  if (data.key.op != Op::kGemm && data.key.op != Op::kConv2d) return {};
  const std::vector<std::size_t> positions = RowsWithLaunch(data, seed);
  if (positions.size() < kMinRows) return {};
  const TableData rows = data.Subset(positions);
  std::vector<std::unique_ptr<Prior>> priors;
  priors.push_back(std::make_unique<LaunchPrior>(variants));
  const ExactModel exact = ExactModel::Fit(rows, std::move(priors), seed);

  std::vector<Measurement> storage;
  const TableData synthetic = SyntheticShapes(rows, kSyntheticShapes, seed, storage);
  const Eigen::MatrixXf own = FeaturesOf(rows).cast<float>();
  const Eigen::VectorXf own_y = (exact.Ln(rows) - PredictFamily(rows, variants)).cast<float>();
  constexpr Eigen::Index kRepeats = 4;  // of measured rows, so that they count
  const Eigen::Index shapes = synthetic.size();
  Eigen::MatrixXf x(shapes + kRepeats * own.rows(), own.cols());
  Eigen::VectorXf y(x.rows());
  Eigen::VectorXd spread(x.rows());
  x.topRows(shapes) = FeaturesOf(synthetic).cast<float>();
  y.head(shapes) = (exact.Ln(synthetic) - PredictFamily(synthetic, variants)).cast<float>();
  spread.head(shapes) = exact.LocalErrorAt(synthetic);
  for (Eigen::Index i = 0; i < kRepeats; ++i) {
    x.middleRows(shapes + i * own.rows(), own.rows()) = own;
    y.segment(shapes + i * own.rows(), own.rows()) = own_y;
    spread.segment(shapes + i * own.rows(), own.rows()) = exact.local_error_of_rows();
  }
  LaunchFit fit;
  fit.residual = TrainNetwork(x, y, {.hidden = {64, 64}, .seed = seed});
  FitSpread(x, spread, fit.residual);
  const Eigen::VectorXd lost = (own_y - EvaluateNetwork(fit.residual, own)).cast<double>();
  const Eigen::VectorXd spread_of_rows = EvaluateSpread(fit.residual, own);
  std::vector<HeldOut> held_out;
  for (Eigen::Index r = 0; r < own.rows(); ++r)
    held_out.push_back({exact.held_out_ln()[r] + lost[r], spread_of_rows[r]});
  if (MapeOf(held_out) >= mape) return {};
  fit.interval = IntervalOf(held_out, std::max(std::sqrt(exact.noise_variance()), kMinNoise));
  return fit;
}

}  // namespace gpueta
