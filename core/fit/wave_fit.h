// Fitting the kernel-aware form: nonnegative least squares on the relative
// error, one configuration a kernel.
#pragma once

#include <vector>

#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

// One configuration for each kernel name with enough rows, sorted by name.
std::vector<KernelConfig> FitKernelConfigs(const TableData& data);

}  // namespace gpueta
