// Wall time as an argument, so that tests need not wait for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace gpueta {

using Clock = std::function<std::chrono::system_clock::time_point()>;

inline std::int64_t UnixSeconds(const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::seconds>(clock().time_since_epoch()).count();
}

}  // namespace gpueta
