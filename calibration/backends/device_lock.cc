#include "calibration/backends/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {

absl::StatusOr<DeviceLock> DeviceLock::Acquire(const std::string& directory, const std::string& device) {
  std::string name = device;
  std::ranges::replace(name, '/', '-');
  const std::string path = fmt::format("{}/gpueta-{}.lock", directory, name);
  DeviceLock lock;
  // Without O_CREAT first: in a sticky directory it would refuse another user's file.
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  constexpr mode_t kEveryone = 0666;
  lock.file_ = open(path.c_str(), kFlags);
  if (lock.file_ < 0 && errno == ENOENT) lock.file_ = open(path.c_str(), kFlags | O_CREAT, kEveryone);
  if (lock.file_ < 0) return Unavailable("{}: {}", path, std::strerror(errno));
  if (flock(lock.file_, LOCK_EX | LOCK_NB) != 0) {
    return FailedPrecondition("somebody else measures on {} (and holds {}); wait until that ends", device, path);
  }
  return lock;
}

DeviceLock::DeviceLock(DeviceLock&& other) noexcept { *this = std::move(other); }

DeviceLock& DeviceLock::operator=(DeviceLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

DeviceLock::~DeviceLock() {
  if (file_ >= 0) close(file_);
}

absl::StatusOr<std::vector<DeviceLock>> LockDevices(std::span<const std::string> devices,
                                                    const std::string& directory) {
  std::vector<DeviceLock> locks;
  for (const std::string& device : devices) {
    if (device.empty()) continue;
    GPUETA_ASSIGN_OR_RETURN(DeviceLock lock, DeviceLock::Acquire(directory, device));
    locks.push_back(std::move(lock));
  }
  return locks;
}

absl::StatusOr<std::vector<DeviceLock>> LockDevicesOf(const Backend& backend, const std::string& directory) {
  std::vector<std::string> devices = backend.peers();
  const std::map<std::string, std::string> labels = backend.labels();
  if (const auto uuid = labels.find("uuid"); uuid != labels.end()) devices.push_back(uuid->second);
  return LockDevices(devices, directory);
}

}  // namespace gpueta
