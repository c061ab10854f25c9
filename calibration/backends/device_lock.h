// Who measures on a device has it alone: a worker, `gpueta measure`, `gpueta emulate`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"

namespace gpueta {

// Held until destroyed or the process ends, however it ends. Advisory, by a file.
class DeviceLock {
 public:
  // `device` names the device among those of this machine ("cuda:0" may be another
  // one in each container: take what is hashed of its UUID). FAILED_PRECONDITION
  // where somebody else holds it; UNAVAILABLE naming the file where it cannot be
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

// Where locks are unless another place is asked for.
inline constexpr char kLockDirectory[] = "/tmp";

// The locks of devices by their names, of which those that are empty need none. Errors as
// DeviceLock::Acquire.
absl::StatusOr<std::vector<DeviceLock>> LockDevices(std::span<const std::string> devices, const std::string& directory);

// Of the GPUs that a backend uses: its own by the label "uuid", and its peers. A CPU needs
// none, since it sees who disturbs it; neither does a replay.
absl::StatusOr<std::vector<DeviceLock>> LockDevicesOf(const Backend& backend, const std::string& directory);

}  // namespace gpueta
