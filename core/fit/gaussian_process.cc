#include "core/fit/gaussian_process.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "core/fit/minimise.h"
#include "core/fit/order_statistic.h"

namespace gpueta {
namespace {

constexpr double kConstantVariance = 0.25;  // of the constant term
constexpr double kJitter = 1e-8;
constexpr double kDegreesOfFreedom = 4;
constexpr double kLnLength0 = 0.693147;  // ln 2
const double kLnSignal0 = std::log(0.15);
const double kLnNoise0 = std::log(0.03);

// Squared distances between scaled rows.
Eigen::MatrixXd SquaredDistances(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) {
  Eigen::MatrixXd d = -2 * a * b.transpose();
  d.colwise() += a.rowwise().squaredNorm();
  d.rowwise() += b.rowwise().squaredNorm().transpose();
  return d.cwiseMax(0);
}

Eigen::MatrixXd Matern(const Eigen::MatrixXd& squared) {
  const Eigen::ArrayXXd s = (3 * squared.array()).sqrt();
  return (1 + s) * (-s).exp();
}

// Σ over pairs of rows of weight·(difference in a column)², for each column of x.
// weights is symmetric.
Eigen::VectorXd WeightedSquaredDifferences(const Eigen::MatrixXd& weights, const Eigen::MatrixXd& x) {
  const Eigen::VectorXd of_row = weights.rowwise().sum();
  const Eigen::MatrixXd weighted = weights * x;
  return 2 * (x.array().square().matrix().transpose() * of_row - x.cwiseProduct(weighted).colwise().sum().transpose());
}

// Negative log posterior of the hyperparameters and its gradient.
// theta: ln length of each input, ln sf, ln σ; extra_noise: variance of each row
// on top of σ².
double NegativeLogPosterior(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const Eigen::VectorXd& extra_noise,
                            const Eigen::VectorXd& theta, Eigen::VectorXd& gradient) {
  const Eigen::Index n = y.size();
  const Eigen::Index d = x.cols();
  const double signal = std::exp(2 * theta[d]);
  const double noise = std::exp(2 * theta[d + 1]);
  const Eigen::MatrixXd scaled = x * (-theta.head(d)).array().exp().matrix().asDiagonal();
  const Eigen::ArrayXXd s = (3 * SquaredDistances(scaled, scaled).array()).sqrt();
  const Eigen::ArrayXXd decay = (-s).exp();
  const Eigen::ArrayXXd k = (1 + s) * decay;
  Eigen::MatrixXd covariance = signal * k.matrix();
  covariance.array() += kConstantVariance;
  covariance.diagonal().array() += noise + kJitter + extra_noise.array();
  const Eigen::LLT<Eigen::MatrixXd> llt(covariance);
  if (llt.info() != Eigen::Success) {
    gradient.setZero();
    return 1e10;
  }
  const Eigen::VectorXd alpha = llt.solve(y);
  Eigen::MatrixXd a = llt.solve(Eigen::MatrixXd::Identity(n, n));
  a -= alpha * alpha.transpose();
  const Eigen::ArrayXd from_prior = theta.head(d).array() - kLnLength0;
  double value = 0.5 * y.dot(alpha) + Eigen::MatrixXd(llt.matrixL()).diagonal().array().log().sum();
  value += 0.5 * from_prior.square().sum();
  gradient.head(d) = 0.5 * WeightedSquaredDifferences((a.array() * (3 * signal * decay)).matrix(), scaled);
  gradient.head(d).array() += from_prior;
  gradient[d] = (a.array() * k).sum() * signal + (theta[d] - kLnSignal0);
  gradient[d + 1] = a.trace() * noise + (theta[d + 1] - kLnNoise0);
  value += 0.5 * ((theta[d] - kLnSignal0) * (theta[d] - kLnSignal0) +
                  (theta[d + 1] - kLnNoise0) * (theta[d + 1] - kLnNoise0));
  return value;
}

// Variance to add to each row so that rows which the others contradict count
// less, as under noise with Student's t distribution.
Eigen::VectorXd ExtraNoise(const Eigen::VectorXd& loo_residual, const Eigen::VectorXd& loo_variance) {
  const Eigen::ArrayXd z2 = loo_residual.array().square() / loo_variance.array();
  return ((kDegreesOfFreedom + z2) / (kDegreesOfFreedom + 1) - 1).max(0) * loo_variance.array();
}

// The same for hyperparameters that are not fitted yet: of wild rows only.
Eigen::VectorXd NoiseOfWildRows(const Eigen::VectorXd& loo_residual, const Eigen::VectorXd& loo_variance) {
  constexpr double kWild = 6;
  const Eigen::ArrayXd z = (loo_residual.array() / loo_variance.array().sqrt()).abs();
  const double scale = 1.4826 * Median(z.matrix());
  return (z > kWild * scale).select(loo_residual.array().square(), 0);
}

}  // namespace

GaussianProcess GaussianProcess::Fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const Options& options) {
  GaussianProcess gp;
  const Eigen::Index n = x.rows();
  const Eigen::Index d = x.cols();
  gp.x_ = x;
  gp.centre_ = Median(y);
  const Eigen::VectorXd centred = y.array() - gp.centre_;

  std::vector<Eigen::Index> rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  if (n > options.hyper_rows) {
    std::mt19937_64 random(options.seed);
    std::shuffle(rows.begin(), rows.end(), random);
    rows.resize(static_cast<std::size_t>(options.hyper_rows));
  }
  const Eigen::MatrixXd xs = x(rows, Eigen::all);
  const Eigen::VectorXd ys = centred(rows);
  Eigen::VectorXd theta(d + 2), low(d + 2), high(d + 2);
  theta << Eigen::VectorXd::Constant(d, kLnLength0), kLnSignal0, kLnNoise0;
  low << Eigen::VectorXd::Constant(d, -3), -5, -6;
  high << Eigen::VectorXd::Constant(d, 5), 2, 0;
  gp.SetHyperparameters(theta);
  Eigen::VectorXd extra_noise = Eigen::VectorXd::Zero(n);
  // Before the hyperparameters: a few wild rows would pass for noise everywhere.
  if (options.robust_passes > 0) {
    gp.Solve(centred, extra_noise);
    extra_noise = NoiseOfWildRows(gp.loo_residual_, gp.loo_variance_);
  }
  const Eigen::VectorXd extra_of_rows = extra_noise(rows);
  theta = Minimise(
      [&](const Eigen::VectorXd& at, Eigen::VectorXd& gradient) {
        return NegativeLogPosterior(xs, ys, extra_of_rows, at, gradient);
      },
      theta, low, high, options.iterations);
  gp.SetHyperparameters(theta);
  gp.Solve(centred, extra_noise);
  for (int pass = 0; pass < options.robust_passes; ++pass) {
    extra_noise = ExtraNoise(gp.loo_residual_, gp.loo_variance_ - extra_noise);
    gp.Solve(centred, extra_noise);
  }
  return gp;
}

void GaussianProcess::SetHyperparameters(const Eigen::VectorXd& theta) {
  const Eigen::Index d = theta.size() - 2;
  inverse_length_ = (-theta.head(d)).array().exp();
  signal_ = std::exp(2 * theta[d]);
  noise_ = std::exp(2 * theta[d + 1]);
}

void GaussianProcess::Solve(const Eigen::VectorXd& centred, const Eigen::VectorXd& extra_noise) {
  Eigen::MatrixXd covariance = Covariance(x_, x_);
  covariance.diagonal().array() += noise_ + kJitter + extra_noise.array();
  Eigen::LLT<Eigen::MatrixXd> llt(covariance);
  for (double extra = 1e-6; llt.info() != Eigen::Success && extra < 1; extra *= 10) {
    covariance.diagonal().array() += extra;
    llt.compute(covariance);
  }
  factor_ = llt.matrixL();
  alpha_ = llt.solve(centred);
  const Eigen::VectorXd precision = llt.solve(Eigen::MatrixXd::Identity(centred.size(), centred.size())).diagonal();
  loo_variance_ = precision.cwiseInverse();
  loo_residual_ = alpha_.cwiseProduct(loo_variance_);
}

Eigen::MatrixXd GaussianProcess::Covariance(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) const {
  Eigen::MatrixXd k =
      signal_ * Matern(SquaredDistances(a * inverse_length_.asDiagonal(), b * inverse_length_.asDiagonal()));
  k.array() += kConstantVariance;
  return k;
}

Eigen::VectorXd GaussianProcess::Mean(const Eigen::MatrixXd& x) const {
  constexpr Eigen::Index kChunk = 4096;
  Eigen::VectorXd mean(x.rows());
  for (Eigen::Index start = 0; start < x.rows(); start += kChunk) {
    const Eigen::Index rows = std::min(kChunk, x.rows() - start);
    mean.segment(start, rows) = Covariance(x.middleRows(start, rows), x_) * alpha_;
  }
  return mean.array() + centre_;
}

Eigen::VectorXd GaussianProcess::Variance(const Eigen::MatrixXd& x) const {
  constexpr Eigen::Index kChunk = 2048;
  Eigen::VectorXd variance(x.rows());
  for (Eigen::Index start = 0; start < x.rows(); start += kChunk) {
    const Eigen::Index rows = std::min(kChunk, x.rows() - start);
    const Eigen::MatrixXd v = factor_.triangularView<Eigen::Lower>().solve(Covariance(x_, x.middleRows(start, rows)));
    variance.segment(start, rows) =
        signal_ + kConstantVariance + noise_ - v.colwise().squaredNorm().transpose().array();
  }
  return variance.cwiseMax(1e-8);
}

}  // namespace gpueta
