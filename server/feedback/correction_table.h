// The corrections that predictions apply: one immutable table, replaced as a
// whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/predict/correction.h"

namespace gpueta {

class CorrectionTable {
 public:
  struct Entry {
    std::uint64_t profile = 0;  // learnt on this one's predictions (ProfileNumber)
    Corrections corrections;
  };
  CorrectionTable() = default;
  explicit CorrectionTable(std::map<std::string, Entry, std::less<>> entries) : entries_(std::move(entries)) {}

  // nullptr: none, or learnt on another profile.
  const Corrections* Find(std::string_view device, std::uint64_t profile) const {
    if (entries_.empty()) return nullptr;
    const auto it = entries_.find(device);
    return it == entries_.end() || it->second.profile != profile ? nullptr : &it->second.corrections;
  }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace gpueta
