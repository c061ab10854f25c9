// Learning what kernel and grid of a launch say beyond the shape.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fit/table_data.h"
#include "core/profile/profile.h"

namespace gpueta {

struct LaunchFit {
  Residual residual;  // empty: too few rows tell their launch, or it does not help
  Interval interval;
};

// Of products (GEMMs and convolutions) whose rows name kernel and grid, and of
// custom kernels whose rows tell the grid: the family form (of custom kernels their
// configuration, where they have one) and an exact model over features of shape
// and launch, distilled into a network over synthetic shapes with launches like
// those measured. `table` has variants, configurations and the held-out error
// without launches, to be beaten.
LaunchFit FitLaunchResidual(const TableData& data, const Table& table, std::uint64_t seed);

}  // namespace gpueta
