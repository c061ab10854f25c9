// Memory-bound operators by our own kernels (vector_kernels.cu).
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/ops/operation.h"

namespace gpueta {

// Of PTX (VectorKernelsPtx()) with entries named OP_OPERANDS_DTYPE; each is launched as vector_kernels.cu
// says. INVALID_ARGUMENT where the device refuses the PTX.
absl::StatusOr<std::unique_ptr<OperatorLibrary>> LoadVectorLibrary(CudaDevice& device, std::string_view ptx);

}  // namespace gpueta
