// Fitting the family form: physics prior first, with parameters for each
// label.
#pragma once

#include <vector>

#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

// One variant for each of data.labels, in that order. Parameters shared by all
// labels are equal in all variants; a label with too few rows for parameters
// of its own repeats those of "*". With `every_param_by_label` nothing is shared:
// for rows of many devices, where there are enough of each label.
std::vector<Variant> FitFamily(const TableData& data, bool every_param_by_label = false);

// ln(latency) by the variants, one a row.
Eigen::VectorXd PredictFamily(const TableData& data, const std::vector<Variant>& variants);

}  // namespace gpueta
