#include <utility>

#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/ops/testing_kernel_device.h"
#include "core/base/errors.h"

namespace gpueta {

absl::StatusOr<KernelDevice> OpenKernelDevice() {
  GPUETA_ASSIGN_OR_RETURN(std::unique_ptr<CudaDriver> driver, OpenCudaDriver());
  KernelDevice opened{.floats = {DType::kFp32, DType::kFp16, DType::kBf16}};
  GPUETA_ASSIGN_OR_RETURN(opened.device, driver->Open(0));
  opened.driver = std::move(driver);
  return opened;
}

}  // namespace gpueta
