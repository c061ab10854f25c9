#include "calibration/control/open_control.h"

#include "calibration/backends/backends.h"
#include "calibration/control/cpu/cpu_control.h"
#include "core/base/errors.h"

namespace gpueta {

absl::StatusOr<std::unique_ptr<DeviceControl>> OpenDeviceControl(std::string_view device,
                                                                 const ControlOptions& options) {
  const std::string chosen = device == "auto" ? ChooseDevice().device : std::string(device);
  if (chosen == "cpu") {
    return OpenCpuControl(
        {.allow_card_settings = options.allow_card_settings, .guard = {.state_directory = options.state_directory}});
  }
  if (chosen.starts_with("cuda:")) {
    return FailedPrecondition("{}: only the CPU can be made to act like another device so far; use cpu", chosen);
  }
  return InvalidArgument("device \"{}\": a host that acts like another device is auto or cpu", device);
}

}  // namespace gpueta
