// In place of open_cuda_backend.cc in a build without the CUDA toolkit.
#include "calibration/backends/cuda/cuda_backend.h"
#include "core/base/errors.h"

namespace gpueta {

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(int, const CudaOptions&) {
  return OpenCudaDriver().status();  // says so
}

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackendOn(std::unique_ptr<CudaDevice>, std::unique_ptr<Card>,
                                                           const CudaOptions&) {
  return OpenCudaDriver().status();
}

}  // namespace gpueta
