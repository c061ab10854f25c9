// What records of kernels say. Pure.
#pragma once

#include <span>

#include "calibration/backends/cuda/driver/activity.h"
#include "core/ops/kernel.h"

namespace gpueta {

// The time that kernels ran: overlapping ones count once, gaps do not.
double DeviceTimeUs(std::span<const KernelActivity> activities);

// Name and geometry of the kernel that an operation spends most time in; without
// records what was known before. The name is without namespaces, template arguments
// and parameters, as Launch::kernel has it.
Launch LaunchOf(std::span<const KernelActivity> activities, Launch known);

}  // namespace gpueta
