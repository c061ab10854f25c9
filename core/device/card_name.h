// Cards by what their driver calls them, as profilers and nvidia-smi print it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/catalogue.h"

namespace gpueta {

// As the driver reports it; 0 means unknown.
struct NamedCard {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::int64_t sm_count = 0;
  std::int64_t memory_bytes = 0;
};

// The slugs of the cards that fit best, sorted: one where it is clear, several where they fit
// equally well, none where no card does. What must fit: the SMs and the memory where they
// are known; size and kind of memory where the name has them; all words of the name, in any
// order, or else (when SMs and memory are both known) the model's. Of those, the one
// whose own name says least besides; a form factor SXM least of all, which drivers leave out.
std::vector<std::string> CardsCalled(const NamedCard& card, const Catalogue& catalogue = Catalogue::BuiltIn());

// The one card that fits best; empty if none does, or several do equally well.
std::string CardCalled(const NamedCard& card);

}  // namespace gpueta
