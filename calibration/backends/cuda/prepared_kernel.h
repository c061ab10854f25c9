// One kernel on a CUDA device, timed alone.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/cuda/cuda_context.h"
#include "calibration/backends/cuda/ops/operation.h"

namespace gpueta {

// `source` is what PreparedKernel::source() says. The context and the operation's
// library must outlive it.
absl::StatusOr<std::unique_ptr<PreparedKernel>> PrepareCudaKernel(const Kernel& kernel,
                                                                  std::unique_ptr<Operation> operation,
                                                                  const std::string& source, CudaContext& context);

}  // namespace gpueta
