// Inputs with zero mean and unit deviation.
#pragma once

#include <Eigen/Core>

namespace gpueta {

// Made from one set of rows, applied to any. Columns that do not vary become 0.
class Standardiser {
 public:
  explicit Standardiser(const Eigen::MatrixXd& x) {
    mean_ = x.colwise().mean();
    scale_ = (x.rowwise() - mean_).array().square().colwise().mean().sqrt();
    for (double& s : scale_) s = s > kConstant ? 1 / s : 0;
  }
  Eigen::MatrixXd operator()(const Eigen::MatrixXd& x) const {
    return (x.rowwise() - mean_).array().rowwise() * scale_.array();
  }

 private:
  static constexpr double kConstant = 1e-9;
  Eigen::RowVectorXd mean_;
  Eigen::RowVectorXd scale_;
};

}  // namespace gpueta
