// In place of native_driver.cc in a build without the CUDA toolkit.
#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "core/base/errors.h"

namespace gpueta {

absl::StatusOr<std::unique_ptr<CudaDriver>> OpenCudaDriver() {
  return FailedPrecondition("this build has no CUDA backend: it was made without the CUDA toolkit");
}

}  // namespace gpueta
