// What a device really reaches: its measured peaks.
#pragma once

#include <map>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/cuda/device/microbenchmarks.h"
#include "core/device/spec.h"
#include "core/ops/dtype.h"

namespace gpueta {

struct Capabilities {
  std::map<DType, double> tflops;  // of products; a type that the device cannot run is absent
  double bandwidth_gb_s = 0;       // of a copy far larger than the L2 cache
};

// Large products of each type and a large copy, the best of a few shapes: a few
// seconds by `clock`. What the backend does not support is left out.
// FAILED_PRECONDITION where it supports neither products in fp32 nor copies.
absl::StatusOr<Capabilities> MeasureCapabilities(Backend& backend, const MicrosecondClock& clock);

// With them in the spec's unknown cells.
DeviceSpec WithCapabilities(DeviceSpec spec, const Capabilities& measured);
// The same of what neither products nor copies could tell: rates without tensor cores of
// fp16, and all others where a library is missing.
DeviceSpec WithMicrobenchmarks(DeviceSpec spec, const Microbenchmarks& measured);

}  // namespace gpueta
