#include "core/predict/estimate.h"

namespace gpueta {

std::string_view Name(Provenance provenance) {
  switch (provenance) {
    case Provenance::kMeasured: return "measured";
    case Provenance::kInterpolated: return "interpolated";
    case Provenance::kExtrapolated: return "extrapolated";
    case Provenance::kTransferred: return "transferred";
    case Provenance::kRoofline: return "roofline";
    case Provenance::kEmulated: return "emulated";
  }
  return "?";
}

std::string_view Name(Bound bound) {
  switch (bound) {
    case Bound::kCompute: return "compute";
    case Bound::kMemory: return "memory";
    case Bound::kLaunch: return "launch";
    case Bound::kCommunication: return "communication";
  }
  return "?";
}

}  // namespace gpueta
