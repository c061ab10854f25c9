// How much a model errs around a point: some regions are harder than others.
#pragma once

#include <Eigen/Core>

namespace gpueta {

// Mean of |error| over the measured rows nearest to each point, those with the
// largest covariance. covariance: [point][row]; errors: one a row. To leave a
// row out of its own surroundings, make its covariance with itself the least.
Eigen::VectorXd LocalErrors(const Eigen::MatrixXd& covariance, const Eigen::VectorXd& errors);

}  // namespace gpueta
