// The current value of something immutable that is replaced as a whole.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace gpueta {

// Contract:
// - Read() neither locks nor waits, whatever writers do: two atomic additions
//   on a cache line that the thread shares with few others, one load and the
//   copy of a shared_ptr.
// - What Read() returns stays valid and unchanged for as long as it is held,
//   by any thread.
// - A Read() that begins after Swap() returned sees the new value or a newer
//   one.
// - Swap() waits only for threads that are inside Read() at that moment (tens
//   of nanoseconds unless preempted), never for those who hold a result.
// - Swaps are serialised by a mutex that readers do not touch.
// - The last holder of an old value destroys it; that may be a reader.
template <class T>
class SnapshotPointer {
 public:
  explicit SnapshotPointer(std::shared_ptr<const T> value) : current_(new Holder(std::move(value))) {}
  ~SnapshotPointer() { delete current_.load(std::memory_order_relaxed); }
  SnapshotPointer(const SnapshotPointer&) = delete;
  SnapshotPointer& operator=(const SnapshotPointer&) = delete;

  std::shared_ptr<const T> Read() const {
    // seq_cst: the addition must not sink below the load, or Swap could miss
    // this reader.
    std::atomic<int>& inside = readers_[ShardOfThisThread()].inside;
    inside.fetch_add(1, std::memory_order_seq_cst);
    std::shared_ptr<const T> value = *current_.load(std::memory_order_seq_cst);
    inside.fetch_sub(1, std::memory_order_release);
    return value;
  }

  // Replaces the value and returns the old one.
  std::shared_ptr<const T> Swap(std::shared_ptr<const T> value) {
    auto* next = new Holder(std::move(value));
    const std::lock_guard lock(swap_mutex_);
    const std::unique_ptr<Holder> old(current_.exchange(next, std::memory_order_seq_cst));
    // A reader that still uses the old holder entered its shard before the
    // exchange, so a shard seen empty now holds no such reader.
    for (const Shard& shard : readers_) {
      while (shard.inside.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
    }
    return std::move(*old);
  }

 private:
  using Holder = std::shared_ptr<const T>;

  // Threads spread over shards so that they rarely write to one cache line.
  static constexpr std::size_t kShards = 64;
  struct alignas(64) Shard {
    std::atomic<int> inside{0};
  };

  static std::size_t ShardOfThisThread() {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t shard = threads.fetch_add(1, std::memory_order_relaxed) % kShards;
    return shard;
  }

  mutable std::array<Shard, kShards> readers_;
  std::atomic<Holder*> current_;
  std::mutex swap_mutex_;
};

}  // namespace gpueta
