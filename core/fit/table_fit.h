// Fitting one table: family form, residual, intervals, configurations.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/fit/prior.h"
#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

// `others`: priors from elsewhere that the residual may go by, beside those of
// the rows. Deterministic for equal rows and seed.
Table FitTable(const TableData& data, std::uint64_t seed, std::vector<std::unique_ptr<Prior>> others = {});

// Measured kernels answer with their measurement: what `predicted_ln` lacks,
// shrunk by the noise of a measurement against the spread of such errors.
void RememberMeasured(const TableData& data, const Eigen::VectorXd& predicted_ln, double noise_ln, double spread_ln,
                      Table& table);

// The hull and the floor of the rows.
void FillHull(const TableData& data, Table& table);

}  // namespace gpueta
