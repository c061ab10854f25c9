// Kernels of a model on a CUDA device, one after the other.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/cuda/cuda_context.h"
#include "calibration/backends/cuda/ops/operation.h"

namespace gpueta {

// The context and the operations' libraries must outlive it.
absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareCudaGraph(std::vector<std::unique_ptr<Operation>> operations,
                                                                DType dtype, CudaContext& context);

}  // namespace gpueta
