// The devices of this machine that CUDA can use.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/card.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/driver/cuda_types.h"

namespace gpueta {

class CudaDriver {
 public:
  virtual ~CudaDriver() = default;

  virtual int DeviceCount() const = 0;
  // Without opening it: no context is made, nothing is allocated on it.
  virtual absl::StatusOr<DeviceProperties> PropertiesOf(int ordinal) = 0;
  // NOT_FOUND naming the devices there are;
  // UNAVAILABLE where another process has it to itself.
  virtual absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int ordinal) = 0;
  // The card that the device is or is a MIG instance of. FAILED_PRECONDITION
  // saying what is missing where NVML cannot be used; the device works without.
  virtual absl::StatusOr<std::unique_ptr<Card>> OpenCard(int ordinal) = 0;
};

// The driver of this machine. FAILED_PRECONDITION saying what is missing: this
// build's CUDA backend, libcuda.so.1, a device.
absl::StatusOr<std::unique_ptr<CudaDriver>> OpenCudaDriver();

}  // namespace gpueta
