// Minimising smooth functions.
#pragma once

#include <Eigen/Core>
#include <functional>

namespace gpueta {

// L-BFGS with projection onto low ≤ x ≤ high and backtracking (Nocedal &
// Wright 2006, ch. 7). `f` returns the value and fills the gradient. Stops
// after `iterations`, or when a step gains nothing. Deterministic.
Eigen::VectorXd Minimise(const std::function<double(const Eigen::VectorXd&, Eigen::VectorXd&)>& f,
                         Eigen::VectorXd start, const Eigen::VectorXd& low, const Eigen::VectorXd& high,
                         int iterations);

}  // namespace gpueta
