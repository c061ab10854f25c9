// Training the small networks that residuals are served as.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "core/profile/profile.h"

namespace gpueta {

struct TrainOptions {
  std::vector<int> hidden = {32, 32};
  int epochs = 60;
  int batch_rows = 256;
  double learning_rate = 1.2e-2;  // at the top of the cycle
  double huber_delta = 0.15;      // in ln(latency): errors beyond it count linearly
  std::uint64_t seed = 0;
};

// Fits a network with ReLU to y over x (one row a point) by Adam with a
// one-cycle learning rate. Inputs are standardised and clamped to ±4 as the
// evaluation does. Deterministic.
Residual TrainNetwork(const Eigen::MatrixXf& x, const Eigen::VectorXf& y, const TrainOptions& options);

// The network's output for each row.
Eigen::VectorXf EvaluateNetwork(const Residual& residual, const Eigen::MatrixXf& x);

// Units of the last hidden layer and a constant, what the last layer is linear
// in: [row][unit].
Eigen::MatrixXd LastHiddenUnits(const Residual& residual, const Eigen::MatrixXf& x);

// Fills spread_weights by least squares: spread of each row of x, in any unit;
// what is fitted is its ratio to the mean.
void FitSpread(const Eigen::MatrixXf& x, const Eigen::VectorXd& spread, Residual& residual);

// The spread of each row; 1 without spread_weights.
Eigen::VectorXd EvaluateSpread(const Residual& residual, const Eigen::MatrixXf& x);

}  // namespace gpueta
