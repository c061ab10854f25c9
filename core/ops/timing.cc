#include "core/ops/timing.h"

namespace gpueta {

std::string_view Name(Timing timing) {
  switch (timing) {
    case Timing::kEager: return "eager";
    case Timing::kGraph: return "graph";
    case Timing::kKernel: return "kernel";
  }
  return "?";
}

std::optional<Timing> ParseTiming(std::string_view name) {
  for (Timing timing : kAllTimings) {
    if (Name(timing) == name) return timing;
  }
  return std::nullopt;
}

}  // namespace gpueta
