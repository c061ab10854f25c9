// Intervals from the errors of rows that a prediction did not see.
#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "core/profile/profile.h"

namespace gpueta {

struct HeldOut {
  double ln = 0;      // ln(observed/predicted)
  double spread = 1;  // how much wider than the table's the row's interval is
};

// One a value of ln, with the same spread or each its own.
std::vector<HeldOut> HeldOutErrors(const Eigen::VectorXd& ln);
std::vector<HeldOut> HeldOutErrors(const Eigen::VectorXd& ln, const Eigen::VectorXd& spread);

// One-sided, of ln over spread. With few rows the quantiles are the conformal
// ones (Vovk et al. 2005; with a spread: Lei et al. 2018): the
// ceil((n+1)·q)-th smallest, and widened where that does not exist.
Interval IntervalOf(std::span<const HeldOut> held_out, double noise_ln);

// Mean of |predicted/observed − 1|; 0 without rows.
double MapeOf(std::span<const HeldOut> held_out);

// Standard deviation of ln, about 0.
double SpreadOf(std::span<const HeldOut> held_out);

}  // namespace gpueta
