// Waiting for work that may never end.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/timing.h"

namespace gpueta {

// Far above any kernel that is measured (tens of milliseconds) and any graph of a
// model (seconds).
inline constexpr double kHungAfterUs = 30e6;

// Until the event is reached. DEADLINE_EXCEEDED naming `what` when that takes
// longer than `limit_us`: the kernel hangs, and with it whatever this process
// enqueues on the device; only a new process can use it again.
absl::Status Await(CudaDevice& device, EventHandle event, const std::string& what, const HostTime& time,
                   double limit_us = kHungAfterUs);

}  // namespace gpueta
