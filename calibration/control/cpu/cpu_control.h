// The processor of this machine as a host: fewer cores, contended bandwidth,
// and where the system lets it, a lower clock.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "calibration/control/card/guarded_card.h"
#include "calibration/control/device_control.h"

namespace gpueta {

struct CpuControlOptions {
  // The clock is a setting of the whole machine that outlasts the process: left
  // alone unless allowed.
  bool allow_card_settings = false;
  GuardOptions guard;
  std::string settings_directory = "/sys/devices/system/cpu";  // where the system keeps clocks
};

// Knobs: units are the cores that the process may use, by affinity and the
// number of OpenMP threads; contention comes from the cores that are left;
// core_clock_mhz with allow_card_settings, where there is cpufreq. Use from the
// thread that will run the backend: its affinity and OpenMP threads change
// meanwhile. FAILED_PRECONDITION with OMP_PROC_BIND (threads would not follow
// the affinity); errors as CpuClock::Open, but for NOT_FOUND.
absl::StatusOr<std::unique_ptr<DeviceControl>> OpenCpuControl(const CpuControlOptions& options = {});

}  // namespace gpueta
