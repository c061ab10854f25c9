#include "calibration/backends/cuda/timing/watchdog.h"

#include "core/base/errors.h"

namespace gpueta {
namespace {

// Asking without a pause is precise but keeps a core busy: only for as long as
// kernels usually take.
constexpr double kSpinUs = 2'000;
constexpr double kPauseUs = 100;

}  // namespace

absl::Status Await(CudaDevice& device, EventHandle event, const std::string& what, const HostTime& time,
                   double limit_us) {
  const double start_us = time.now();
  while (true) {
    GPUETA_ASSIGN_OR_RETURN(const bool reached, device.Reached(event));
    if (reached) return absl::OkStatus();
    const double waited_us = time.now() - start_us;
    if (waited_us > limit_us) {
      return absl::DeadlineExceededError(fmt::format("{} did not end within {:.0f} s", what, limit_us / 1e6));
    }
    if (waited_us > kSpinUs) time.pause(kPauseUs);
  }
}

}  // namespace gpueta
