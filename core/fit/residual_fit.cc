#include "core/fit/residual_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "core/fit/exact_model.h"
#include "core/fit/family_fit.h"
#include "core/fit/network.h"
#include "core/fit/synthetic_shapes.h"

namespace gpueta {
namespace {

constexpr Eigen::Index kMinRows = 24;         // below, the family form stands alone
constexpr Eigen::Index kGaussianRows = 2500;  // an exact Cholesky of more takes too long
// To distil over: with half as many a tenth of a point of error more is lost
// (docs/accuracy.md).
constexpr std::size_t kSyntheticShapes = 32000;
constexpr int kDistilEpochs = 100;
// To tell how unsure the model is on average.
constexpr std::size_t kCrossedShapes = 1000;
constexpr int kRowRepeats = 4;  // measured rows count this often among them
constexpr Eigen::Index kManyRowsSeen = 6'000'000;
constexpr double kHeldBack = 0.15;
constexpr double kMinNoise = 0.003;

std::vector<HeldOut> Unweighted(const Eigen::Ref<const Eigen::VectorXd>& ln) {
  std::vector<HeldOut> held_out;
  for (double value : ln) held_out.push_back({value});
  return held_out;
}

double MeanAbsolute(const Eigen::VectorXd& values) { return values.cwiseAbs().mean(); }

ResidualFit Distilled(const TableData& data, const std::vector<Variant>& variants, const Eigen::VectorXd& family_ln,
                      std::uint64_t seed) {
  const Eigen::VectorXd left_over = data.ln_us - family_ln;
  const ExactModel exact = ExactModel::Fit(data, variants, seed);
  const Eigen::VectorXd leave_one_out = exact.held_out_ln();
  ResidualFit fit;
  fit.noise_ln = std::max(std::sqrt(exact.noise_variance()), kMinNoise);
  if (MeanAbsolute(leave_one_out) >= MeanAbsolute(left_over)) {
    fit.held_out = Unweighted(left_over);
    return fit;
  }
  std::vector<Measurement> storage;
  const TableData synthetic = SyntheticShapes(data, kSyntheticShapes, seed, storage);
  const Eigen::MatrixXd features = data.Features();
  const Eigen::Index total = synthetic.size() + kRowRepeats * data.size();
  Eigen::MatrixXf x(total, features.cols());
  Eigen::VectorXf y(total);
  x.topRows(synthetic.size()) = synthetic.Features().cast<float>();
  y.head(synthetic.size()) = (exact.Ln(synthetic) - PredictFamily(synthetic, variants)).cast<float>();
  const Eigen::VectorXf at_rows = (exact.Ln(data) - family_ln).cast<float>();
  for (int repeat = 0; repeat < kRowRepeats; ++repeat) {
    const Eigen::Index start = synthetic.size() + repeat * data.size();
    x.middleRows(start, data.size()) = features.cast<float>();
    y.segment(start, data.size()) = at_rows;
  }
  fit.residual = TrainNetwork(x, y, {.epochs = kDistilEpochs, .seed = seed});
  // What distilling lost at a row counts as error there.
  const Eigen::VectorXd lost =
      at_rows.cast<double>() - EvaluateNetwork(fit.residual, features.cast<float>()).cast<double>();
  std::vector<Measurement> crossed_storage;
  const TableData crossed = CrossedShapes(data, kCrossedShapes, seed, crossed_storage);
  fit.held_out = Unweighted(exact.HeldOutLnAt(crossed) + lost);
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
  // As many steps for any number of rows: many, unless that learns the noise.
  double least = y(test).cwiseAbs().mean();
  fit.held_out = Unweighted(left_over);
  for (Eigen::Index rows_seen : {kManyRowsSeen, kManyRowsSeen / 4, kManyRowsSeen / 16}) {
    TrainOptions options{.seed = seed};
    options.epochs =
        static_cast<int>(std::clamp<Eigen::Index>(rows_seen / static_cast<Eigen::Index>(train.size()), 10, 400));
    Residual residual = TrainNetwork(features(train, Eigen::all), y(train), options);
    const Eigen::VectorXf error = y(test) - EvaluateNetwork(residual, features(test, Eigen::all));
    if (error.cwiseAbs().mean() >= least) continue;
    least = error.cwiseAbs().mean();
    fit.residual = std::move(residual);
    fit.held_out = Unweighted(error.cast<double>());
  }
  return fit;
}

}  // namespace

ResidualFit FitResidual(const TableData& data, const std::vector<Variant>& variants, const Eigen::VectorXd& family_ln,
                        std::uint64_t seed) {
  const Eigen::VectorXd left_over = data.ln_us - family_ln;
  if (data.size() < kMinRows) {
    ResidualFit fit;
    fit.held_out = Unweighted(left_over);
    return fit;
  }
  return data.size() <= kGaussianRows ? Distilled(data, variants, family_ln, seed) : Trained(data, left_over, seed);
}

}  // namespace gpueta
