// What the processor can do at most, measured.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "calibration/backends/cpu/cpu_info.h"
#include "calibration/backends/cpu/operators.h"
#include "core/device/spec.h"

namespace gpueta {

// The specification of the processor with `threads` threads as cores. Peak rates
// are the best of oneDNN's products and convolutions (what software reaches,
// somewhat below the arithmetic peak), 0 for a type without instructions; the
// bandwidth is that of a fast pass (one in four is faster) of STREAM's triad over
// memory that no cache holds. Takes two to three seconds; wants a MeasuringScope.
// RESOURCE_EXHAUSTED when memory does not suffice.
absl::StatusOr<DeviceSpec> DescribeCpu(const CpuInfo& info, const std::string& slug, int threads, const OneDnn& onednn);

}  // namespace gpueta
