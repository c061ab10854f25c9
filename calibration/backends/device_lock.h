// One worker a device.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace gpueta {

// Held until destroyed or the process ends, however it ends. Advisory, by a file.
class DeviceLock {
 public:
  // `device` names the device among those of this machine ("cuda:0" may be another
  // one in each container: take what is hashed of its UUID). FAILED_PRECONDITION
  // where another worker holds it; UNAVAILABLE naming the file where it cannot be
  // made.
  static absl::StatusOr<DeviceLock> Acquire(const std::string& directory, const std::string& device);
  DeviceLock() = default;
  DeviceLock(DeviceLock&& other) noexcept;
  DeviceLock& operator=(DeviceLock&& other) noexcept;
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;
  ~DeviceLock();

 private:
  int file_ = -1;
};

}  // namespace gpueta
