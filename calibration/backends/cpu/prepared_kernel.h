// A kernel timed by itself.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/cpu/cpu_context.h"
#include "calibration/backends/cpu/weight_pool.h"

namespace gpueta {

// Weights cold, activations just written by another kernel. The context must
// outlive it; the pool need not. Errors as Backend::Prepare.
absl::StatusOr<std::unique_ptr<PreparedKernel>> PrepareCpuKernel(const Kernel& kernel, CpuContext& context,
                                                                 WeightPool& weight_pool);

}  // namespace gpueta
