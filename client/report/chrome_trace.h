// Time lines in the trace event format that Perfetto and chrome://tracing open
// (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
#pragma once

#include <span>
#include <string>

#include "core/ops/kernel.h"
#include "core/predict/estimate.h"
#include "core/predict/timeline.h"

namespace gpueta::report {

struct TracedDevice {
  std::string name;
  std::span<const Kernel> kernels;  // of every node of the graph
  const GraphEstimate& estimate;
  const Timeline& timeline;
};

// One JSON document. Each device is a process, each stream and stage a lane,
// and where the host issues kernels one by one the host another.
std::string ChromeTrace(std::span<const TracedDevice> devices);

}  // namespace gpueta::report
