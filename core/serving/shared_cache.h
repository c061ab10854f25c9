// What is costly to make and asked for again and again, by a key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace gpueta {

// Immutable values, up to so many bytes in all; those not asked for longest go
// first. A value larger than that is made and not kept. Safe to use from any
// thread: two that ask for a missing key at once both make it, and the first
// one is kept.
template <class Value>
class SharedCache {
 public:
  using Pointer = std::shared_ptr<const Value>;

  explicit SharedCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // nullptr where it is not there.
  Pointer Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    found->second.asked = ++clock_;
    return found->second.value;
  }

  // The value, made by `make` where it is not there; its errors are returned
  // and not kept. `Value` says its size_bytes().
  absl::StatusOr<Pointer> Get(const std::string& key, const std::function<absl::StatusOr<Value>()>& make) {
    if (Pointer found = Find(key); found != nullptr) return found;
    absl::StatusOr<Value> made = make();
    if (!made.ok()) return made.status();
    return Keep(key, std::make_shared<const Value>(*std::move(made)));
  }

  std::size_t size_bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Entry {
    Pointer value;
    std::size_t bytes = 0;
    std::uint64_t asked = 0;
  };

  Pointer Keep(const std::string& key, Pointer value) {
    const std::size_t bytes = value->size_bytes() + key.size();
    const std::lock_guard lock(mutex_);
    if (bytes > most_bytes_) return value;
    const auto [entry, is_new] = entries_.try_emplace(key, Entry{value, bytes, 0});
    entry->second.asked = ++clock_;
    if (!is_new) return entry->second.value;
    bytes_ += bytes;
    while (bytes_ > most_bytes_) {
      auto oldest = entries_.begin();
      for (auto it = entries_.begin(); it != entries_.end(); ++it) {
        if (it->second.asked < oldest->second.asked) oldest = it;
      }
      bytes_ -= oldest->second.bytes;
      entries_.erase(oldest);
    }
    return value;
  }

  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::size_t bytes_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace gpueta
