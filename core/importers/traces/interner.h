// Numbers for equal things, in the order they were first seen.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

namespace gpueta {

class Interner {
 public:
  // The number of `text`, and whether it is new.
  std::pair<std::uint32_t, bool> Add(const std::string& text) {
    const auto [place, added] = numbers_.try_emplace(text, static_cast<std::uint32_t>(numbers_.size()));
    return {place->second, added};
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace gpueta
