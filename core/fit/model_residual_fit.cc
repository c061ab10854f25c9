#include "core/fit/model_residual_fit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace gpueta {
namespace {

// A model that is off by more was run in some other way.
constexpr double kMostError = 0.5;
constexpr std::size_t kMostTimes = 1000;  // the cost is cubic

Eigen::MatrixXd CovarianceOf(const ModelResidual& process, std::span<const ModelFeatures> models) {
  const auto n = static_cast<Eigen::Index>(models.size());
  Eigen::MatrixXd covariance(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      covariance(i, j) = covariance(j, i) =
          ModelCovariance(process, models[static_cast<std::size_t>(i)], models[static_cast<std::size_t>(j)]);
    }
    covariance(i, i) += process.noise_variance;
  }
  return covariance;
}

double LogLikelihood(const Eigen::LLT<Eigen::MatrixXd>& factor, const Eigen::VectorXd& errors) {
  return -0.5 * errors.dot(factor.solve(errors)) - factor.matrixLLT().diagonal().array().log().sum();
}

}  // namespace

ModelResidual FitModelResidual(std::span<const ModelFeatures> models, const Eigen::VectorXd& errors_ln) {
  ModelResidual best;
  if (models.empty()) return best;
  const std::size_t step = (models.size() + kMostTimes - 1) / kMostTimes;
  std::vector<ModelFeatures> some;
  std::vector<double> kept;
  for (std::size_t i = 0; i < models.size(); i += step) {
    some.push_back(models[i]);
    kept.push_back(std::clamp(errors_ln[static_cast<Eigen::Index>(i)], -kMostError, kMostError));
  }
  const Eigen::VectorXd errors = Eigen::Map<Eigen::VectorXd>(kept.data(), static_cast<Eigen::Index>(kept.size()));
  const double variance = std::max(errors.squaredNorm() / static_cast<double>(errors.size()), 1e-6);
  double best_likelihood = -std::numeric_limits<double>::infinity();
  Eigen::VectorXd weights;
  for (const double length : {0.15, 0.4, 1.0}) {
    for (const double alike : {0.1, 0.3, 0.5, 0.7}) {
      for (const double same : {0.05, 0.2, 0.4}) {
        if (alike + same > 0.9) continue;
        const ModelResidual process{.points = {},
                                    .weights = {},
                                    .alike_variance = alike * variance,
                                    .alike_length = length,
                                    .same_variance = same * variance,
                                    .noise_variance = (1 - alike - same) * variance};
        const Eigen::LLT<Eigen::MatrixXd> factor(CovarianceOf(process, some));
        if (factor.info() != Eigen::Success) continue;
        const double likelihood = LogLikelihood(factor, errors);
        if (likelihood <= best_likelihood) continue;
        best_likelihood = likelihood;
        best = process;
        weights = factor.solve(errors);
      }
    }
  }
  // A model that was timed on several devices is one point.
  std::map<ModelFeatures, double> points;
  for (std::size_t i = 0; i < some.size(); ++i) points[some[i]] += weights[static_cast<Eigen::Index>(i)];
  for (const auto& [point, weight] : points) {
    best.points.insert(best.points.end(), point.begin(), point.end());
    best.weights.push_back(static_cast<float>(weight));
  }
  return best;
}

}  // namespace gpueta
