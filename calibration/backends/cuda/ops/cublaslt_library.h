// Matrix products through cuBLASLt.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/ops/operation.h"

namespace gpueta {

// Products in fp64, fp32, tf32, fp16, bf16, fp8 (e4m3, output bf16) and int8 (output
// int32), batched with strides. The weights of a linear layer are stored by output as
// frameworks do; those of other products, and of fp8 and int8 always, as the library
// wants them. In builds with the CUDA toolkit only. FAILED_PRECONDITION where libcublasLt
// is missing.
absl::StatusOr<std::unique_ptr<OperatorLibrary>> OpenCublasLt(CudaDevice& device);

}  // namespace gpueta
