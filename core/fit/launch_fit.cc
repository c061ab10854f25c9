#include "core/fit/launch_fit.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "core/fit/exact_model.h"
#include "core/fit/family_fit.h"
#include "core/fit/interval_fit.h"
#include "core/fit/lessons.h"
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

Lessons LessonsOf(const TableData& data, const std::vector<Variant>& variants, const ExactModel& exact,
                  const Eigen::VectorXd& spread) {
  return {FeaturesOf(data).cast<float>(), (exact.Ln(data) - PredictFamily(data, variants)).cast<float>(), spread};
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
  const Lessons shapes = LessonsOf(synthetic, variants, exact, exact.LocalErrorAt(synthetic));
  const Lessons own = LessonsOf(rows, variants, exact, exact.local_error_of_rows());
  // Measured rows, so that they count.
  const Lessons lessons = Concatenated({&shapes, &own, &own, &own, &own});
  LaunchFit fit;
  fit.residual = TrainNetwork(lessons.x, lessons.y, {.hidden = {64, 64}, .seed = seed});
  FitSpread(lessons.x, lessons.spread, fit.residual);
  const std::vector<HeldOut> held_out = HeldOutOf(fit.residual, own, exact.held_out_ln());
  if (MapeOf(held_out) >= mape) return {};
  fit.interval = IntervalOf(held_out, std::max(std::sqrt(exact.noise_variance()), kMinNoise));
  return fit;
}

}  // namespace gpueta
