// What the processor can do at most, measured.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "calibration/backends/cpu/cpu_info.h"
#include "calibration/backends/cpu/operators.h"
#include "core/device/spec.h"

namespace gpueta {

// The specification of the processor with `threads` threads as cores. Compute
// peaks are the best of several large oneDNN products (what software reaches,
// a few percent below the arithmetic peak), the bandwidth the best of several
// passes of STREAM's triad over memory that no cache holds. Takes two to three
// seconds; wants a MeasuringScope. RESOURCE_EXHAUSTED when memory does not suffice.
absl::StatusOr<DeviceSpec> DescribeCpu(const CpuInfo& info, const std::string& slug, int threads, const OneDnn& onednn);

}  // namespace gpueta
