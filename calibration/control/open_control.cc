#include "calibration/control/open_control.h"

#include "calibration/backends/backends.h"
#include "calibration/control/cpu/cpu_control.h"
#include "calibration/control/cuda/cuda_control.h"
#include "core/base/errors.h"

namespace gpueta {

absl::StatusOr<std::unique_ptr<DeviceControl>> OpenDeviceControl(std::string_view device,
                                                                 const ControlOptions& options) {
  const std::string chosen = device == "auto" ? ChooseDevice().device : std::string(device);
  if (chosen == "cpu") {
    return OpenCpuControl(
        {.allow_card_settings = options.allow_card_settings, .guard = {.state_directory = options.state_directory}});
  }
  if (const std::optional<int> ordinal = CudaOrdinalOf(chosen); ordinal.has_value()) {
    absl::StatusOr<std::unique_ptr<DeviceControl>> control = OpenCudaControl(
        *ordinal,
        {.allow_card_settings = options.allow_card_settings, .guard = {.state_directory = options.state_directory}});
    if (control.ok()) return control;
    return Prefixed(control.status(), chosen);
  }
  return InvalidArgument("device \"{}\": a host that acts like another device is auto, cpu or cuda:N", device);
}

}  // namespace gpueta
