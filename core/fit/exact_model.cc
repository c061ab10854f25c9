#include "core/fit/exact_model.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "core/fit/gemm_tiles_prior.h"
#include "core/fit/order_statistic.h"

namespace gpueta {
namespace {

constexpr Eigen::Index kHyperRows = 500;
constexpr int kFolds = 5;
constexpr int kWeightSteps = 10;

// With the values beyond six deviations (of normal noise, from the median
// absolute deviation) moved there: trees square errors.
Eigen::VectorXd Winsorised(const Eigen::VectorXd& values) {
  constexpr double kFar = 6 * 1.4826;
  const double median = Median(values);
  const double far = kFar * Median((values.array() - median).abs());
  return values.cwiseMax(median - far).cwiseMin(median + far);
}

// y − what trees fitted to the other folds say.
Eigen::VectorXd HeldOutOfTrees(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, std::uint64_t seed) {
  std::vector<Eigen::Index> order(static_cast<std::size_t>(x.rows()));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  Eigen::VectorXd held_out(y.size());
  for (int fold = 0; fold < kFolds; ++fold) {
    std::vector<Eigen::Index> train;
    std::vector<Eigen::Index> test;
    for (std::size_t i = 0; i < order.size(); ++i)
      (static_cast<int>(i % kFolds) == fold ? test : train).push_back(order[i]);
    const Eigen::VectorXd predicted = BoostedTrees::Fit(x(train, Eigen::all), y(train)).Predict(x(test, Eigen::all));
    held_out(test) = y(test) - predicted;
  }
  return held_out;
}

// Nonnegative weights in steps that sum to 1 and make the mean absolute
// combination of the columns least.
std::vector<double> BestWeights(const Eigen::MatrixXd& held_out) {
  const auto members = static_cast<std::size_t>(held_out.cols());
  std::vector<int> steps(members, 0);
  std::vector<double> best(members, 0);
  double least = std::numeric_limits<double>::max();
  const auto consider = [&](const auto& self, std::size_t member, int left) -> void {
    if (member + 1 == members) {
      steps[member] = left;
      Eigen::VectorXd weights(held_out.cols());
      for (std::size_t m = 0; m < members; ++m)
        weights[static_cast<Eigen::Index>(m)] = static_cast<double>(steps[m]) / kWeightSteps;
      const double error = (held_out * weights).cwiseAbs().mean();
      if (error < least) {
        least = error;
        best.assign(weights.begin(), weights.end());
      }
      return;
    }
    for (int step = 0; step <= left; ++step) {
      steps[member] = step;
      self(self, member + 1, left - step);
    }
  };
  consider(consider, 0, kWeightSteps);
  return best;
}

}  // namespace

ExactModel::Process ExactModel::FitProcess(const TableData& data, std::unique_ptr<Prior> prior, std::uint64_t seed) {
  const Eigen::MatrixXd features = prior->Features(data);
  Standardiser standardise(features);
  auto gp = GaussianProcess::Fit(standardise(features), data.ln_us - prior->Ln(data),
                                 {.hyper_rows = kHyperRows, .seed = seed});
  return {std::move(prior), std::move(standardise), std::move(gp)};
}

ExactModel ExactModel::Fit(const TableData& data, std::vector<Variant> variants, std::uint64_t seed) {
  ExactModel model;
  model.processes_.push_back(FitProcess(data, MakeFamilyPrior(std::move(variants)), seed));
  if (data.key.op == Op::kGemm) model.processes_.push_back(FitProcess(data, FitGemmTilesPrior(data), seed));
  const Prior& family = *model.processes_.front().prior;
  const Eigen::MatrixXd features = family.Features(data);
  const Eigen::VectorXd left_over = Winsorised(data.ln_us - family.Ln(data));
  model.trees_ = BoostedTrees::Fit(features, left_over);

  const auto processes = static_cast<Eigen::Index>(model.processes_.size());
  Eigen::MatrixXd held_out(data.size(), processes + 1);
  for (Eigen::Index p = 0; p < processes; ++p)
    held_out.col(p) = model.processes_[static_cast<std::size_t>(p)].gp.loo_residual();
  held_out.col(processes) = HeldOutOfTrees(features, left_over, seed);
  model.weights_ = BestWeights(held_out);
  model.held_out_ln_ = held_out * Eigen::Map<const Eigen::VectorXd>(model.weights_.data(), processes + 1);
  return model;
}

Eigen::VectorXd ExactModel::Ln(const TableData& data) const {
  Eigen::VectorXd ln = Eigen::VectorXd::Zero(data.size());
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    if (weights_[p] == 0) continue;
    const Process& process = processes_[p];
    ln += weights_[p] * (process.prior->Ln(data) + process.gp.Mean(process.standardise(process.prior->Features(data))));
  }
  if (weights_.back() > 0) {
    const Prior& family = *processes_.front().prior;
    ln += weights_.back() * (family.Ln(data) + trees_.Predict(family.Features(data)));
  }
  return ln;
}

Eigen::VectorXd ExactModel::HeldOutLnAt(const TableData& data) const {
  if (data.size() == 0) return held_out_ln_;
  const Process& process = processes_.front();
  const Eigen::VectorXd variance = process.gp.Variance(process.standardise(process.prior->Features(data)));
  return held_out_ln_.array() / process.gp.loo_variance().array().sqrt() * variance.cwiseSqrt().mean();
}

}  // namespace gpueta
