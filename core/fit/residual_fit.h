// Learning what the family form leaves over, in a form that is fast to serve.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/fit/interval_fit.h"
#include "core/fit/prior.h"
#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

struct ResidualFit {
  Residual residual;              // empty when it would not help
  std::vector<HeldOut> held_out;  // rows the prediction did not see, for intervals
  double noise_ln = 0.02;         // standard deviation of repeated measurements
};

// `variants` is FitFamily(data) and `family_ln` PredictFamily(data, variants).
// Up to a few thousand rows: the exact model, distilled into a network over
// synthetic shapes. More: the network
// is trained on the rows themselves, some held back; `others` have no say then.
ResidualFit FitResidual(const TableData& data, const std::vector<Variant>& variants, const Eigen::VectorXd& family_ln,
                        std::uint64_t seed, std::vector<std::unique_ptr<Prior>> others = {});

}  // namespace gpueta
