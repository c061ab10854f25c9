// Intervals from the errors of rows that a prediction did not see.
#pragma once

#include <span>
#include <vector>

#include "core/profile/profile.h"

namespace gpueta {

struct HeldOut {
  double ln = 0;  // ln(observed/predicted)
  // How many shapes the row stands for: less where the rows are dense.
  double weight = 1;
};

// One-sided. With few rows the quantiles are the conformal ones (Vovk et al.
// 2005; weighted: Tibshirani et al. 2019): the ceil((n+1)·q)-th smallest, and
// widened where that does not exist.
Interval IntervalOf(std::vector<HeldOut> held_out, double noise_ln);

// Weighted mean of |predicted/observed − 1|; 0 without rows.
double MapeOf(std::span<const HeldOut> held_out);

// Weighted standard deviation of ln, about 0.
double SpreadOf(std::span<const HeldOut> held_out);

}  // namespace gpueta
