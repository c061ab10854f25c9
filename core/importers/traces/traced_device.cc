#include "core/importers/traces/traced_device.h"

#include <vector>

#include "core/device/card_name.h"

namespace gpueta {

std::string SlugOf(const TracedDevice& device) {
  const std::vector<std::string> cards =
      CardsCalled({.name = device.name, .sm_count = device.sm_count, .memory_bytes = device.memory_bytes});
  return cards.size() == 1 ? cards.front() : "";
}

}  // namespace gpueta
