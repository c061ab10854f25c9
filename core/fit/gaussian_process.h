// Gaussian process regression for what the family form leaves over.
#pragma once

#include <Eigen/Core>
#include <cstdint>

namespace gpueta {

// Kernel: sf²·Matérn-3/2 with a length for each input + a constant term +
// σ²·I. Hyperparameters are the maximum a posteriori under
// ln length ~ N(ln 2, 1), ln sf ~ N(ln 0.15, 1), ln σ ~ N(ln 0.03, 1)
// (docs/accuracy.md). Inputs must be standardised.
class GaussianProcess {
 public:
  struct Options {
    Eigen::Index hyper_rows = 300;  // rows the hyperparameters are chosen on
    int iterations = 40;
    // Rounds that make rows count less which the others contradict; 0: ordinary
    // Gaussian noise.
    int robust_passes = 2;
    std::uint64_t seed = 0;
  };

  // x: one row a point. The cost is cubic in the number of rows.
  static GaussianProcess Fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const Options& options);

  Eigen::VectorXd Mean(const Eigen::MatrixXd& x) const;
  // Variance of an observation (noise included).
  Eigen::VectorXd Variance(const Eigen::MatrixXd& x) const;

  // Leave-one-out: y − prediction without that row, and its variance
  // (Rasmussen & Williams 2006, eq. 5.12).
  const Eigen::VectorXd& loo_residual() const { return loo_residual_; }
  const Eigen::VectorXd& loo_variance() const { return loo_variance_; }

  double noise_variance() const { return noise_; }
  // Covariance between points, noise excluded.
  Eigen::MatrixXd Covariance(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) const;
  const Eigen::MatrixXd& inputs() const { return x_; }
  // L of the Cholesky factor of the training covariance.
  const Eigen::MatrixXd& factor() const { return factor_; }

 private:
  void SetHyperparameters(const Eigen::VectorXd& theta);
  // factor_, alpha_ and leave-one-out for `centred` = y − centre_.
  void Solve(const Eigen::VectorXd& centred, const Eigen::VectorXd& extra_noise);

  Eigen::MatrixXd x_;
  Eigen::VectorXd inverse_length_;
  double signal_ = 0;  // sf²
  double noise_ = 0;   // σ²
  double centre_ = 0;  // median of y
  Eigen::MatrixXd factor_;
  Eigen::VectorXd alpha_;
  Eigen::VectorXd loo_residual_;
  Eigen::VectorXd loo_variance_;
};

}  // namespace gpueta
