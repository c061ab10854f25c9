// Robust least squares: bounded parameters and nonnegative coefficients.
#pragma once

#include <Eigen/Core>
#include <functional>
#include <span>

#include "core/ops/form.h"

namespace gpueta {

struct BoundedFitOptions {
  double loss_scale = 0.2;  // of the soft-L1 loss: residuals beyond it count less
  double pull = 0.1;        // weight of the pull of each parameter towards its start, in logit units
  int max_iterations = 60;
};

// Minimises Σ softL1(residual_i) + Σ (pull·(z − z_start))² over parameters
// between their bounds, by Levenberg-Marquardt in z = logit of the position
// between the bounds, with numerical derivatives. `residuals(theta, out)`
// fills all residuals. `free[i]` false keeps parameter i at its start.
// Deterministic. Returns the parameters.
std::vector<double> FitBounded(
    std::span<const ParamSpec> params, std::span<const double> start, const std::vector<bool>& free,
    std::size_t residual_count,
    const std::function<void(std::span<const double> theta, std::span<double> out)>& residuals,
    const BoundedFitOptions& options = {});

// min ‖A·x − b‖ over x ≥ 0 (Lawson & Hanson 1974).
Eigen::VectorXd SolveNonnegative(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

}  // namespace gpueta
