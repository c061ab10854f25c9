// Fitting one table: family form, residual, intervals, configurations.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

// Deterministic for equal rows and seed.
Table FitTable(const TableData& data, std::uint64_t seed);

// One-sided interval from ln(observed/predicted) of rows that were not seen.
// With few rows the quantiles are the conformal ones (Vovk et al. 2005): the
// ceil((n+1)·q)-th smallest, and widened where that does not exist.
Interval IntervalOf(std::vector<double> held_out_ln, double noise_ln);

// The hull and the floor of the rows.
void FillHull(const TableData& data, Table& table);

}  // namespace gpueta
