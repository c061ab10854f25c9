// The catalogue's device behind what a profiler says of one.
#pragma once

#include <cstdint>
#include <string>

namespace gpueta {

// As the driver reports it; 0 and empty mean unknown.
struct TracedDevice {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::int64_t sm_count = 0;
  std::int64_t memory_bytes = 0;
};

// The slug of the one device that the name, the SMs and the memory fit best;
// empty if none does, or several do equally well.
std::string SlugOf(const TracedDevice& device);

}  // namespace gpueta
