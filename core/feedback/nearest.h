// Which measured shapes are nearest to a kernel.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/measurements/measurements.h"

namespace gpueta {

struct NearMeasurement {
  const Measurement* row = nullptr;
  double octaves = 0;  // Euclidean distance in log2 of the dims; 0: the same dims
  bool same_label = true;
};

// The nearest rows of the device (or an alias of it) in the kernel's table, at
// most `count`, one a shape, nearest first; rows of its own label (operator,
// layer, distribution) before any other. Dims that may be 0 or negative count
// from 1. Points into `among`.
std::vector<NearMeasurement> NearestMeasurements(const Measurement& to, std::string_view device,
                                                 std::span<const Measurement> among, std::size_t count);

}  // namespace gpueta
