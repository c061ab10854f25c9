#include "calibration/backends/cuda/driver/device_buffer.h"

#include <utility>

#include "core/base/errors.h"

namespace gpueta {

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(CudaDevice& device, std::size_t bytes) {
  DeviceBuffer buffer;
  GPUETA_ASSIGN_OR_RETURN(buffer.pointer_, device.Allocate(bytes));
  buffer.device_ = &device;
  buffer.size_ = bytes;
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pointer_, other.pointer_);
  std::swap(size_, other.size_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (device_ != nullptr) device_->Free(pointer_).IgnoreError();
}

}  // namespace gpueta
