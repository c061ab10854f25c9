// Which observations were seen lately, in fixed memory.
#pragma once

#include <cstdint>
#include <vector>

namespace gpueta {

// Remembers the latest kGeneration to 2·kGeneration numbers; 16 MB once used.
// Not thread-safe.
class Seen {
 public:
  static constexpr std::size_t kGeneration = 500'000;

  // False if `number` is remembered; remembers it otherwise.
  bool Insert(std::uint64_t number);

 private:
  using Slots = std::vector<std::uint64_t>;  // 0: free
  static bool Contains(const Slots& slots, std::uint64_t number);
  static void Put(Slots& slots, std::uint64_t number);

  Slots now_;
  Slots before_;
  std::size_t count_ = 0;  // in now_
};

}  // namespace gpueta
