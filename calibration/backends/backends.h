// The backends there are, by the names users give.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"

namespace gpueta {

// What "auto" means on this machine, and why.
struct ChosenDevice {
  std::string device;
  std::string reason;
};
ChosenDevice ChooseDevice();

// "cpu", "cuda:N", "replay:FILE.csv", or "auto" for ChooseDevice().device.
// INVALID_ARGUMENT for another name; FAILED_PRECONDITION when the device cannot
// be used here, saying why.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view device);

}  // namespace gpueta
