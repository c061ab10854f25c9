// Mixtures of experts: a product for each expert, by the library of products.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/ops/operation.h"

namespace gpueta {

// In fp32, fp16 and bf16, on one rank's experts (routing.h says which tokens they get):
// tokens' rows to experts; of each expert that was chosen the gate and up projections in one
// product; the gated activation; the down projections; the sum of each token's rows, each
// weighing 1/top_k. Operands: tokens, then the experts' weights one behind the other, gate,
// up and down of each, stored by output. `products` must outlive it; `ptx`:
// MoeKernelsPtx(). Errors as CudaDevice::LoadModule.
absl::StatusOr<std::unique_ptr<OperatorLibrary>> LoadMoeLibrary(CudaDevice& device, OperatorLibrary& products,
                                                                std::string_view ptx);

}  // namespace gpueta
