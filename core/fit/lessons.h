// What a network is taught of a model that is too slow to serve.
#pragma once

#include <Eigen/Core>
#include <initializer_list>
#include <vector>

#include "core/fit/interval_fit.h"
#include "core/profile/profile.h"

namespace gpueta {

// One row a shape.
struct Lessons {
  Eigen::MatrixXf x;
  Eigen::VectorXf y;       // what the model says less the family form
  Eigen::VectorXd spread;  // how much the model errs around
};

// One after the other; empty ones may have any width.
Lessons Concatenated(std::initializer_list<const Lessons*> parts);

// The errors of `network` at measured rows that the model did not see when it
// erred by held_out_ln: what distilling lost at a row counts as error there.
std::vector<HeldOut> HeldOutOf(const Residual& network, const Lessons& rows, const Eigen::VectorXd& held_out_ln);

}  // namespace gpueta
