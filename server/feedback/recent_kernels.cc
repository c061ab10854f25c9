#include "server/feedback/recent_kernels.h"

namespace gpueta {

void RecentKernels::Want(bool wanted) {
  const std::lock_guard lock(mutex_);
  wanted_.store(wanted, std::memory_order_relaxed);
  if (wanted) return;
  ring_.clear();
  place_.clear();
  next_ = 0;
}

void RecentKernels::Keep(std::uint64_t serial, const Kernel& kernel) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !wanted()) return;
  if (ring_.size() < kKept) {
    ring_.emplace_back(serial, kernel);
    place_[serial] = ring_.size() - 1;
    return;
  }
  place_.erase(ring_[next_].first);
  ring_[next_] = {serial, kernel};
  place_[serial] = next_;
  next_ = (next_ + 1) % kKept;
}

std::optional<Kernel> RecentKernels::Find(std::uint64_t serial) const {
  const std::lock_guard lock(mutex_);
  const auto it = place_.find(serial);
  return it == place_.end() ? std::nullopt : std::optional(ring_[it->second].second);
}

}  // namespace gpueta
