// Values by rank.
#pragma once

#include <Eigen/Core>
#include <algorithm>

namespace gpueta {

// The value that `rank` others are below (ties in any order); 0 ≤ rank < size.
inline double NthSmallest(Eigen::VectorXd values, Eigen::Index rank) {
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[rank];
}

inline double Median(const Eigen::VectorXd& values) { return NthSmallest(values, values.size() / 2); }

}  // namespace gpueta
