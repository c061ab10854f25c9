// The kernels of the latest predictions by serial number, while somebody wants
// to know: an id says what was predicted, not of what.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/ops/kernel.h"

namespace gpueta {

// Safe to use from any thread. Offer never waits, and does nothing while nobody
// wants kernels.
class RecentKernels {
 public:
  static constexpr std::size_t kKept = 8192;

  void Want(bool wanted);
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void Offer(std::uint64_t serial, const Kernel& kernel) {
    if (wanted()) Keep(serial, kernel);
  }
  std::optional<Kernel> Find(std::uint64_t serial) const;

 private:
  void Keep(std::uint64_t serial, const Kernel& kernel);

  std::atomic<bool> wanted_{false};
  mutable std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, Kernel>> ring_;
  std::size_t next_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> place_;
};

}  // namespace gpueta
