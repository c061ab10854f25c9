// Gradient-boosted regression trees: they follow the steps that a smooth
// process smears.
#pragma once

#include <Eigen/Core>
#include <vector>

namespace gpueta {

struct BoostedTreesOptions {
  int rounds = 250;
  int leaves = 8;
  double learning_rate = 0.05;
  int min_rows = 4;     // of a leaf
  double lambda = 1.0;  // rows of zero residual that each leaf is shrunk by
};

// Least squares; trees grow leaf by leaf, the split with the largest gain
// first. Deterministic.
class BoostedTrees {
 public:
  // x: one row a point.
  static BoostedTrees Fit(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const BoostedTreesOptions& options = {});

  Eigen::VectorXd Predict(const Eigen::MatrixXd& x) const;

 private:
  struct Node {
    int feature = -1;  // −1: a leaf
    double threshold = 0;
    int left = 0, right = 0;  // left: x ≤ threshold
    double value = 0;
  };
  std::vector<std::vector<Node>> trees_;
};

}  // namespace gpueta
