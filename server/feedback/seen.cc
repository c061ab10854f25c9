#include "server/feedback/seen.h"

#include <utility>

namespace gpueta {
namespace {

constexpr std::size_t kSlots = std::size_t{1} << 20;  // a power of two, at most half full
static_assert(2 * Seen::kGeneration <= kSlots);

std::size_t SlotOf(std::uint64_t number) { return (number * 0x9E3779B97F4A7C15U) >> 44; }

}  // namespace

bool Seen::Contains(const Slots& slots, std::uint64_t number) {
  if (slots.empty()) return false;
  for (std::size_t slot = SlotOf(number); slots[slot] != 0; slot = (slot + 1) % kSlots) {
    if (slots[slot] == number) return true;
  }
  return false;
}

void Seen::Put(Slots& slots, std::uint64_t number) {
  std::size_t slot = SlotOf(number);
  while (slots[slot] != 0) slot = (slot + 1) % kSlots;
  slots[slot] = number;
}

bool Seen::Insert(std::uint64_t number) {
  if (number == 0) number = 1;
  if (Contains(now_, number) || Contains(before_, number)) return false;
  if (now_.empty() || count_ == kGeneration) {
    std::swap(now_, before_);
    now_.assign(kSlots, 0);
    count_ = 0;
  }
  Put(now_, number);
  ++count_;
  return true;
}

}  // namespace gpueta
