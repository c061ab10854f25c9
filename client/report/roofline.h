// Kernels under the roofs of a device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/device/spec.h"
#include "core/ops/kernel.h"

namespace gpueta::report {

// The colour of kernels of an op, in every picture.
int ColourOf(Op op);

struct RooflinePoint {
  Kernel kernel;
  double latency_us = 0;
  double share = 0;  // of the time shown; the dot's area grows with it; 0: a small dot
};

// FLOP/s over FLOP a byte (Williams et al. 2009), with a roof for each dtype
// among the points (vector operators apart, unless there is nothing else): the
// data sheet's bandwidth, then its peak. Collectives, which links
// bound, and what computes nothing are left out. "" without a point to show.
std::string Roofline(std::string_view name, const DeviceSpec& spec, const std::vector<RooflinePoint>& points);

}  // namespace gpueta::report
