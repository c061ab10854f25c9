// The processor of this machine as a device, with oneDNN as its library.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"

namespace gpueta {

// Uses as many threads as OpenMP would: OMP_NUM_THREADS, or one a core.
// Latencies are `eager`: wall time of a call, waking the threads included.
absl::StatusOr<std::unique_ptr<Backend>> OpenCpuBackend();

}  // namespace gpueta
