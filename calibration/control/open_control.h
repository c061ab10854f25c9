// The devices that can be restricted, by the names users give.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibration/control/device_control.h"

namespace gpueta {

struct ControlOptions {
  // Settings that concern everybody on the device and outlast the process, such
  // as clocks. Without them only what this process alone notices is restricted.
  bool allow_card_settings = false;
  std::string state_directory;  // of their journal; empty: DefaultStateDirectory()
};

// "cpu", "cuda:N" or "auto" (the first GPU, else the CPU). INVALID_ARGUMENT for another name; FAILED_PRECONDITION when
// the device cannot be restricted here, saying why.
absl::StatusOr<std::unique_ptr<DeviceControl>> OpenDeviceControl(std::string_view device,
                                                                 const ControlOptions& options = {});

}  // namespace gpueta
