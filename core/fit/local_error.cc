#include "core/fit/local_error.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace gpueta {
namespace {

constexpr Eigen::Index kNeighbours = 8;

}  // namespace

Eigen::VectorXd LocalErrors(const Eigen::MatrixXd& covariance, const Eigen::VectorXd& errors) {
  const Eigen::Index neighbours = std::min(kNeighbours, errors.size());
  Eigen::VectorXd local(covariance.rows());
  std::vector<Eigen::Index> order(static_cast<std::size_t>(errors.size()));
  for (Eigen::Index p = 0; p < covariance.rows(); ++p) {
    const Eigen::VectorXd of_point = covariance.row(p);  // contiguous
    std::iota(order.begin(), order.end(), 0);
    std::nth_element(order.begin(), order.begin() + neighbours - 1, order.end(),
                     [&](Eigen::Index a, Eigen::Index b) { return of_point[a] > of_point[b]; });
    double sum = 0;
    for (Eigen::Index i = 0; i < neighbours; ++i) sum += std::abs(errors[order[static_cast<std::size_t>(i)]]);
    local[p] = sum / static_cast<double>(neighbours);
  }
  return local;
}

}  // namespace gpueta
