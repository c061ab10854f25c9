// Learning what the family form leaves over, in a form that is fast to serve.
#pragma once

#include <cstdint>

#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

struct ResidualFit {
  Residual residual;  // empty when it would not help
  // ln(observed/predicted) of rows the prediction did not see, for intervals.
  std::vector<double> held_out_ln;
  double noise_ln = 0.02;  // standard deviation of repeated measurements
};

// `family_ln` is PredictFamily(data). Up to a few thousand rows: a Gaussian
// process, distilled into a network over synthetic shapes. More: the network
// is trained on the rows themselves, some held back.
ResidualFit FitResidual(const TableData& data, const Eigen::VectorXd& family_ln, std::uint64_t seed);

}  // namespace gpueta
