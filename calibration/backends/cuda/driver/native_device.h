// A device of this machine, through libcuda. Thin calls only: there is nothing to
// decide here, as nothing here can be tested without a device.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/driver/driver_api.h"

namespace gpueta {

absl::StatusOr<DeviceProperties> NativeProperties(const DriverApi& api, int ordinal);

// Holds the device's primary context, which the CUDA libraries use too, and makes
// it current. `api` must outlive the device.
absl::StatusOr<std::unique_ptr<CudaDevice>> OpenNativeDevice(const DriverApi& api, int ordinal);

}  // namespace gpueta
