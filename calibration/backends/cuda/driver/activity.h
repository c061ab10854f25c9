// Kernels as the device itself records them: names, times and geometry.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_types.h"

namespace gpueta {

struct KernelActivity {
  std::string name;  // demangled or not, as the library that made it named it
  Dim3 grid;
  Dim3 block;
  double start_us = 0;  // on the device's clock
  double end_us = 0;
};

// Records the kernels of this process. Recording slows launches down a little, so
// it is on only between the two calls.
class ActivityRecorder {
 public:
  virtual ~ActivityRecorder() = default;
  virtual absl::Status Start() = 0;
  // Everything that ended since Start, by start time; work must be synchronised
  // before.
  virtual absl::StatusOr<std::vector<KernelActivity>> Stop() = 0;
};

// Through CUPTI; in builds with the CUDA toolkit only. FAILED_PRECONDITION where
// libcupti is missing.
absl::StatusOr<std::unique_ptr<ActivityRecorder>> OpenActivityRecorder();

}  // namespace gpueta
