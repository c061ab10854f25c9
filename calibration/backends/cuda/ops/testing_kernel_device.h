// The device that tests of our own kernels run them on.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "core/ops/dtype.h"

namespace gpueta {

struct KernelDevice {
  std::shared_ptr<void> driver;  // outlives the device; may be null
  std::unique_ptr<CudaDevice> device;
  std::vector<DType> floats;  // that it runs the kernels in
};

// Each test program has its own. FAILED_PRECONDITION where there is no device.
absl::StatusOr<KernelDevice> OpenKernelDevice();

}  // namespace gpueta
