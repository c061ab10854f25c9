// Device memory that is freed with its owner.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"

namespace gpueta {

// The device must outlive it.
class DeviceBuffer {
 public:
  static absl::StatusOr<DeviceBuffer> Allocate(CudaDevice& device, std::size_t bytes);
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  DevicePointer pointer() const { return pointer_; }
  std::size_t size() const { return size_; }  // bytes

 private:
  CudaDevice* device_ = nullptr;
  DevicePointer pointer_ = 0;
  std::size_t size_ = 0;
};

}  // namespace gpueta
