#include "core/fit/exact_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "core/fit/conv_algorithms_prior.h"
#include "core/fit/folds.h"
#include "core/fit/gemm_tiles_prior.h"
#include "core/fit/local_error.h"
#include "core/fit/order_statistic.h"

namespace gpueta {
namespace {

constexpr Eigen::Index kHyperRows = 500;
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
  Eigen::VectorXd held_out(y.size());
  for (const auto& [train, test] : Folds(x.rows(), seed)) {
    const Eigen::VectorXd predicted = BoostedTrees::Fit(x(train, Eigen::all), y(train)).Predict(x(test, Eigen::all));
    held_out(test) = y(test) - predicted;
  }
  return held_out;
}

// What a row's error is divided by where errors are compared: the error around
// it, but not less than a share of the average.
Eigen::VectorXd ErrorScale(const Eigen::VectorXd& local_error) {
  constexpr double kLeastShare = 0.25;
  return local_error.array() + kLeastShare * local_error.mean();
}

// |error| around each row of a process's own data, without the row's.
Eigen::VectorXd LocalErrorOfRows(const GaussianProcess& gp, const Eigen::VectorXd& errors) {
  Eigen::MatrixXd covariance = gp.Covariance(gp.inputs(), gp.inputs());
  covariance.diagonal().setConstant(-1);
  return LocalErrors(covariance, errors);
}

// Nonnegative weights in steps that sum to 1 and make the mean absolute
// combination of the columns least. Rows count by 1/scale: they are bought
// where the model errs, and a few hard regions would decide for all others.
std::vector<double> BestWeights(const Eigen::MatrixXd& held_out, const Eigen::VectorXd& scale) {
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
      const double error = (held_out * weights).cwiseAbs().cwiseQuotient(scale).mean();
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

// The same, but the columns from `own` on count only where they make the errors
// less by more than two standard errors of that: few rows always seem to say
// something for them.
Eigen::VectorXd BestWeights(const Eigen::MatrixXd& held_out, const Eigen::VectorXd& scale, Eigen::Index own) {
  const auto as_vector = [&](std::vector<double> weights) {
    weights.resize(static_cast<std::size_t>(held_out.cols()), 0);
    return Eigen::VectorXd(Eigen::Map<const Eigen::VectorXd>(weights.data(), held_out.cols()));
  };
  const Eigen::VectorXd without = as_vector(BestWeights(held_out.leftCols(own), scale));
  if (own == held_out.cols()) return without;
  const Eigen::VectorXd with = as_vector(BestWeights(held_out, scale));
  const Eigen::ArrayXd gain =
      ((held_out * without).cwiseAbs() - (held_out * with).cwiseAbs()).cwiseQuotient(scale).array();
  const double error = std::sqrt((gain - gain.mean()).square().mean() / static_cast<double>(gain.size()));
  return gain.mean() > 2 * error ? with : without;
}

std::vector<Eigen::Index> RowsOfLabel(const TableData& data, int label) {
  std::vector<Eigen::Index> rows;
  for (std::size_t r = 0; r < data.label_of_row.size(); ++r) {
    if (data.label_of_row[r] == label) rows.push_back(static_cast<Eigen::Index>(r));
  }
  return rows;
}

}  // namespace

// Labels whose rows alone say more of them than all rows do: a kernel unlike
// the others (another algorithm, with steps where they have none) would be
// smoothed by theirs.
std::vector<ExactModel::OfLabel> ExactModel::FitLabels(const TableData& data, const Eigen::MatrixXd& features,
                                                       const Eigen::VectorXd& left_over, std::uint64_t seed,
                                                       Eigen::VectorXd& held_out) {
  constexpr std::size_t kMinRows = 40;
  constexpr double kClearlyBetter = 0.8;  // leave-one-out error, of that with all rows
  std::vector<OfLabel> labels;
  for (int label = 1; label < static_cast<int>(data.labels.size()); ++label) {
    const std::vector<Eigen::Index> rows = RowsOfLabel(data, label);
    if (rows.size() < kMinRows || 2 * static_cast<Eigen::Index>(rows.size()) > data.size()) continue;
    const Eigen::MatrixXd x = features(rows, Eigen::all);
    OfLabel own{label, Standardiser(x), {}};
    own.gp = GaussianProcess::Fit(own.standardise(x), left_over(rows), {.hyper_rows = kHyperRows, .seed = seed});
    const Eigen::VectorXd pooled = held_out(rows);
    if (own.gp.loo_residual().cwiseAbs().mean() > kClearlyBetter * pooled.cwiseAbs().mean()) continue;
    held_out(rows) = own.gp.loo_residual();
    labels.push_back(std::move(own));
  }
  return labels;
}

ExactModel::Learners ExactModel::FitLearners(const TableData& data, std::unique_ptr<Prior> prior, std::uint64_t seed,
                                             Eigen::Ref<Eigen::MatrixXd> held_out) {
  const Eigen::MatrixXd features = prior->Features(data);
  const Eigen::VectorXd left_over = data.ln_us - prior->Ln(data);
  const Eigen::VectorXd tamed = Winsorised(left_over);
  Standardiser standardise(features);
  auto gp = GaussianProcess::Fit(standardise(features), left_over, {.hyper_rows = kHyperRows, .seed = seed});
  Eigen::VectorXd of_process = gp.loo_residual();
  std::vector<OfLabel> labels = FitLabels(data, features, left_over, seed, of_process);
  held_out.col(0) = of_process;
  held_out.col(1) = HeldOutOfTrees(features, tamed, seed);
  return {std::move(prior), std::move(standardise), std::move(gp), std::move(labels),
          BoostedTrees::Fit(features, tamed)};
}

ExactModel ExactModel::Fit(const TableData& data, std::vector<Variant> variants, std::uint64_t seed,
                           std::vector<std::unique_ptr<Prior>> others) {
  std::vector<std::unique_ptr<Prior>> priors;
  priors.push_back(MakeFamilyPrior(std::move(variants)));
  if (data.key.op == Op::kGemm) priors.push_back(FitGemmTilesPrior(data));
  if (data.key.op == Op::kConv2d) {
    if (auto algorithms = FitConvAlgorithmsPrior(data, seed); algorithms != nullptr)
      priors.push_back(std::move(algorithms));
  }
  const std::size_t own = priors.size();
  std::move(others.begin(), others.end(), std::back_inserter(priors));
  return Fit(data, std::move(priors), seed, own);
}

ExactModel ExactModel::Fit(const TableData& data, std::vector<std::unique_ptr<Prior>> priors, std::uint64_t seed) {
  const std::size_t own = priors.size();
  return Fit(data, std::move(priors), seed, own);
}

ExactModel ExactModel::Fit(const TableData& data, std::vector<std::unique_ptr<Prior>> priors, std::uint64_t seed,
                           std::size_t own) {
  ExactModel model;
  const auto members = static_cast<Eigen::Index>(2 * priors.size());
  Eigen::MatrixXd held_out(data.size(), members);
  for (std::unique_ptr<Prior>& prior : priors) {
    const auto member = static_cast<Eigen::Index>(2 * model.learners_.size());
    model.learners_.push_back(FitLearners(data, std::move(prior), seed, held_out.middleCols(member, 2)));
  }
  const GaussianProcess& of_family = model.learners_.front().gp;
  const Eigen::VectorXd weights = BestWeights(held_out, ErrorScale(LocalErrorOfRows(of_family, held_out.col(0))),
                                              static_cast<Eigen::Index>(2 * own));
  model.weights_.assign(weights.begin(), weights.end());
  model.held_out_ln_ = held_out * weights;
  model.local_error_of_rows_ = LocalErrorOfRows(of_family, model.held_out_ln_);
  return model;
}

Eigen::VectorXd ExactModel::Ln(const TableData& data) const {
  Eigen::VectorXd ln = Eigen::VectorXd::Zero(data.size());
  for (std::size_t l = 0; l < learners_.size(); ++l) {
    const double of_gp = weights_[2 * l];
    const double of_trees = weights_[2 * l + 1];
    if (of_gp + of_trees == 0) continue;
    const Learners& learners = learners_[l];
    const Eigen::MatrixXd features = learners.prior->Features(data);
    ln += (of_gp + of_trees) * learners.prior->Ln(data);
    if (of_gp > 0) ln += of_gp * learners.Mean(data, features);
    if (of_trees > 0) ln += of_trees * learners.trees.Predict(features);
  }
  return ln;
}

Eigen::VectorXd ExactModel::Learners::Mean(const TableData& data, const Eigen::MatrixXd& features) const {
  Eigen::VectorXd mean = gp.Mean(standardise(features));
  for (const OfLabel& own : labels) {
    const std::vector<Eigen::Index> rows = RowsOfLabel(data, own.label);
    if (!rows.empty()) mean(rows) = own.gp.Mean(own.standardise(features(rows, Eigen::all)));
  }
  return mean;
}

Eigen::VectorXd ExactModel::LocalErrorAt(const TableData& data) const {
  constexpr Eigen::Index kChunk = 2048;
  const Learners& family = learners_.front();
  const Eigen::MatrixXd x = family.standardise(family.prior->Features(data));
  Eigen::VectorXd local(x.rows());
  for (Eigen::Index start = 0; start < x.rows(); start += kChunk) {
    const Eigen::Index rows = std::min(kChunk, x.rows() - start);
    local.segment(start, rows) =
        LocalErrors(family.gp.Covariance(x.middleRows(start, rows), family.gp.inputs()), held_out_ln_);
  }
  return local;
}

}  // namespace gpueta
