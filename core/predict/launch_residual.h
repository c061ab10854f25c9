// Products whose kernel and grid are known, and custom kernels whose grid is, one
// at a time.
#pragma once

#include <optional>

#include "core/ops/kernel.h"
#include "core/ops/machine.h"
#include "core/predict/estimate.h"
#include "core/profile/profile.h"

namespace gpueta {

// By the family form (of custom kernels that have one their configuration) and the
// table's launch_residual; `variant` is the position of the kernel's label among
// the table's. Outside the measured hull the
// residual is damped and the interval wider, as without a launch. nullopt where
// the table has no such residual or the kernel's launch is not known.
std::optional<Quantiles> LatencyOfLaunch(const Table& table, int variant, const Kernel& kernel,
                                         const Machine<double>& machine);

}  // namespace gpueta
