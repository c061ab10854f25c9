// Mixtures of experts: a product for each expert, by the library of products.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/ops/operation.h"

namespace gpueta {

// In fp32, fp16, bf16 and fp8 (e4m3 operands, 16-bit output; compute capability 8.9), on one
// rank's experts (routing.h says which tokens they get): tokens' rows to experts; of each
// expert that was chosen the gate and up projections in one product; the gated activation;
// the down projections; the sum of each token's rows, each weighing 1/top_k. Of fp8 the
// tokens come in fp8, the activation makes fp8 again, and the sums are bf16. Operands: tokens,
// then the experts' weights one behind the other, gate, up and down of each, stored by output.
// `products` must outlive it; `ptx`: MoeKernelsPtx(), `fp8_ptx`: MoeFp8KernelsPtx(). Errors
// as CudaDevice::LoadModule of `ptx`; without what `fp8_ptx` has there is no fp8.
absl::StatusOr<std::unique_ptr<OperatorLibrary>> LoadMoeLibrary(CudaDevice& device, OperatorLibrary& products,
                                                                std::string_view ptx, std::string_view fp8_ptx);

}  // namespace gpueta
