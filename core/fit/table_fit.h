// Fitting one table: family form, residual, intervals, configurations.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

// Deterministic for equal rows and seed.
Table FitTable(const TableData& data, std::uint64_t seed);

// The hull and the floor of the rows.
void FillHull(const TableData& data, Table& table);

}  // namespace gpueta
