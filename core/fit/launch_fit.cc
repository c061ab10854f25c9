#include "core/fit/launch_fit.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "core/fit/conv_algorithms_prior.h"
#include "core/fit/exact_model.h"
#include "core/fit/family_fit.h"
#include "core/fit/interval_fit.h"
#include "core/fit/lessons.h"
#include "core/fit/network.h"
#include "core/fit/synthetic_shapes.h"
#include "core/ops/launch.h"
#include "core/predict/wave.h"

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
  // `table` must outlive this.
  explicit LaunchPrior(const Table& table) : table_(table) {}
  Eigen::VectorXd Ln(const TableData& data) const override {
    Eigen::VectorXd ln = PredictFamily(data, table_.variants);
    for (Eigen::Index r = 0; r < data.size(); ++r) {
      const auto row = static_cast<std::size_t>(r);
      const auto us = CustomLatencyUs(data.rows[row]->kernel, data.machines[row], table_.kernel_configs);
      if (us.has_value()) ln[r] = std::log(*us);
    }
    return ln;
  }
  Eigen::MatrixXd Features(const TableData& data) const override { return FeaturesOf(data); }

 protected:
  const Table& table() const { return table_; }

 private:
  const Table& table_;
};

// The kernel's own configuration, where it has one.
class ConfigurationPrior : public LaunchPrior {
 public:
  using LaunchPrior::LaunchPrior;
  Eigen::VectorXd Ln(const TableData& data) const override {
    Eigen::VectorXd ln = LaunchPrior::Ln(data);
    for (Eigen::Index r = 0; r < data.size(); ++r) {
      const auto row = static_cast<std::size_t>(r);
      const Kernel& kernel = data.rows[row]->kernel;
      const KernelConfig* config = FindConfig(table().kernel_configs, ConfigurationOf(kernel));
      if (config == nullptr) continue;
      const double us = WaveLatencyUs(kernel, data.machines[row], *config).value_or(0);
      if (us > 0) ln[r] = std::log(us);
    }
    return ln;
  }
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

Lessons LessonsOf(const TableData& data, const LaunchPrior& prior, const ExactModel& exact,
                  const Eigen::VectorXd& spread) {
  return {FeaturesOf(data).cast<float>(), (exact.Ln(data) - prior.Ln(data)).cast<float>(), spread};
}

}  // namespace

LaunchFit FitLaunchResidual(const TableData& data, const Table& table, std::uint64_t seed) {
  if (data.key.op != Op::kGemm && data.key.op != Op::kConv2d && data.key.op != Op::kCustom) return {};
  const std::vector<std::size_t> positions = RowsWithLaunch(data, seed);
  if (positions.size() < kMinRows) return {};
  const TableData rows = data.Subset(positions);
  std::vector<std::unique_ptr<Prior>> priors;
  const LaunchPrior prior(table);
  priors.push_back(std::make_unique<LaunchPrior>(table));
  if (data.key.op != Op::kCustom) priors.push_back(std::make_unique<ConfigurationPrior>(table));
  if (data.key.op == Op::kConv2d) {
    if (auto known = FitKnownConvAlgorithms(rows, std::make_unique<LaunchPrior>(table)); known != nullptr)
      priors.push_back(std::move(known));
  }
  const ExactModel exact = ExactModel::Fit(rows, std::move(priors), seed);

  std::vector<Measurement> storage;
  const TableData synthetic = SyntheticShapes(rows, kSyntheticShapes, seed, storage);
  const Lessons shapes = LessonsOf(synthetic, prior, exact, exact.LocalErrorAt(synthetic));
  const Lessons own = LessonsOf(rows, prior, exact, exact.local_error_of_rows());
  // Measured rows, so that they count.
  const Lessons lessons = Concatenated({&shapes, &own, &own, &own, &own});
  LaunchFit fit;
  fit.residual = TrainNetwork(lessons.x, lessons.y, {.hidden = {64, 64}, .seed = seed});
  FitSpread(lessons.x, lessons.spread, fit.residual);
  const std::vector<HeldOut> held_out = HeldOutOf(fit.residual, own, exact.held_out_ln());
  if (MapeOf(held_out) >= table.cv_mape) return {};
  fit.interval = IntervalOf(held_out, std::max(std::sqrt(exact.noise_variance()), kMinNoise));
  return fit;
}

}  // namespace gpueta
