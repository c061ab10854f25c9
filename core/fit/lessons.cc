#include "core/fit/lessons.h"

#include "core/fit/network.h"

namespace gpueta {

Lessons Concatenated(std::initializer_list<const Lessons*> parts) {
  Eigen::Index total = 0;
  for (const Lessons* part : parts) total += part->y.size();
  Lessons all{Eigen::MatrixXf(total, (*parts.begin())->x.cols()), Eigen::VectorXf(total), Eigen::VectorXd(total)};
  Eigen::Index at = 0;
  for (const Lessons* part : parts) {
    const Eigen::Index rows = part->y.size();
    if (rows == 0) continue;
    all.x.middleRows(at, rows) = part->x;
    all.y.segment(at, rows) = part->y;
    all.spread.segment(at, rows) = part->spread;
    at += rows;
  }
  return all;
}

std::vector<HeldOut> HeldOutOf(const Residual& network, const Lessons& rows, const Eigen::VectorXd& held_out_ln) {
  const Eigen::VectorXd lost = (rows.y - EvaluateNetwork(network, rows.x)).cast<double>();
  return HeldOutErrors(held_out_ln + lost, EvaluateSpread(network, rows.x));
}

}  // namespace gpueta
