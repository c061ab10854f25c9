#include "core/fit/residual_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "core/fit/gaussian_process.h"
#include "core/fit/network.h"
#include "core/fit/standardiser.h"
#include "core/fit/synthetic_shapes.h"

namespace gpueta {
namespace {

constexpr Eigen::Index kMinRows = 24;            // below, the family form stands alone
constexpr Eigen::Index kGaussianRows = 2500;     // an exact Cholesky of more takes too long
constexpr std::size_t kSyntheticShapes = 16000;  // to distil over: fewer lose half a point of error
constexpr int kDistilEpochs = 100;
constexpr Eigen::Index kHyperRows = 500;
constexpr int kRowRepeats = 4;  // measured rows count this often among them
constexpr double kHeldBack = 0.15;
constexpr double kMinNoise = 0.003;

double MeanAbsolute(const Eigen::VectorXd& values) { return values.cwiseAbs().mean(); }

ResidualFit Distilled(const TableData& data, const Eigen::VectorXd& left_over, std::uint64_t seed) {
  const Eigen::MatrixXd features = data.Features();
  const Standardiser standardise(features);
  const auto gp = GaussianProcess::Fit(standardise(features), left_over, {.hyper_rows = kHyperRows, .seed = seed});
  ResidualFit fit;
  fit.noise_ln = std::max(std::sqrt(gp.noise_variance()), kMinNoise);
  if (MeanAbsolute(gp.loo_residual()) >= MeanAbsolute(left_over)) {
    fit.held_out_ln.assign(left_over.begin(), left_over.end());
    return fit;
  }
  std::vector<Measurement> storage;
  const TableData synthetic = SyntheticShapes(data, kSyntheticShapes, seed, storage);
  const Eigen::MatrixXd synthetic_features = synthetic.Features();
  const Eigen::Index total = synthetic.size() + kRowRepeats * data.size();
  Eigen::MatrixXf x(total, features.cols());
  Eigen::VectorXf y(total);
  x.topRows(synthetic.size()) = synthetic_features.cast<float>();
  y.head(synthetic.size()) = gp.Mean(standardise(synthetic_features)).cast<float>();
  const Eigen::VectorXf at_rows = gp.Mean(standardise(features)).cast<float>();
  for (int repeat = 0; repeat < kRowRepeats; ++repeat) {
    const Eigen::Index start = synthetic.size() + repeat * data.size();
    x.middleRows(start, data.size()) = features.cast<float>();
    y.segment(start, data.size()) = at_rows;
  }
  fit.residual = TrainNetwork(x, y, {.epochs = kDistilEpochs, .seed = seed});
  // What distilling lost at a row counts as error there.
  const Eigen::VectorXd lost =
      at_rows.cast<double>() - EvaluateNetwork(fit.residual, features.cast<float>()).cast<double>();
  const Eigen::VectorXd held_out = gp.loo_residual() + lost;
  fit.held_out_ln.assign(held_out.begin(), held_out.end());
  return fit;
}

ResidualFit Trained(const TableData& data, const Eigen::VectorXd& left_over, std::uint64_t seed) {
  std::vector<Eigen::Index> order(static_cast<std::size_t>(data.size()));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  const auto held_back = static_cast<std::ptrdiff_t>(kHeldBack * static_cast<double>(order.size()));
  const std::vector<Eigen::Index> test(order.begin(), order.begin() + held_back);
  const std::vector<Eigen::Index> train(order.begin() + held_back, order.end());
  const Eigen::MatrixXf features = data.Features().cast<float>();
  const Eigen::VectorXf y = left_over.cast<float>();
  ResidualFit fit;
  TrainOptions options{.hidden = {48, 32}, .seed = seed};
  // As many steps for any number of rows.
  options.epochs =
      static_cast<int>(std::clamp<Eigen::Index>(1'500'000 / static_cast<Eigen::Index>(train.size()), 20, 150));
  fit.residual = TrainNetwork(features(train, Eigen::all), y(train), options);
  const Eigen::VectorXf error = y(test) - EvaluateNetwork(fit.residual, features(test, Eigen::all));
  fit.held_out_ln.assign(error.begin(), error.end());
  if (error.cwiseAbs().mean() >= y(test).cwiseAbs().mean()) {
    fit.residual = {};
    fit.held_out_ln.assign(left_over.begin(), left_over.end());
  }
  return fit;
}

}  // namespace

ResidualFit FitResidual(const TableData& data, const Eigen::VectorXd& family_ln, std::uint64_t seed) {
  const Eigen::VectorXd left_over = data.ln_us - family_ln;
  if (data.size() < kMinRows) {
    ResidualFit fit;
    fit.held_out_ln.assign(left_over.begin(), left_over.end());
    return fit;
  }
  return data.size() <= kGaussianRows ? Distilled(data, left_over, seed) : Trained(data, left_over, seed);
}

}  // namespace gpueta
