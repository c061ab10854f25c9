// What everything that runs on the processor shares.
#pragma once

#include <memory>

#include "calibration/backends/cpu/cpu_info.h"
#include "calibration/backends/cpu/interference.h"
#include "calibration/backends/cpu/measuring_scope.h"
#include "calibration/backends/cpu/operators.h"
#include "calibration/backends/timing.h"

namespace gpueta {

// Used by one thread.
class CpuContext {
 public:
  CpuInfo info = ReadCpuInfo();
  OneDnn onednn;
  InterferenceMonitor monitor;

  // Shared by whoever measures at the time.
  std::shared_ptr<const MeasuringScope> Scope();

  // Whether the cores are where they should be: kUndisturbed or kSlowed.
  Condition PlacementNow();

 private:
  ThreadPlacement placement_;
  std::weak_ptr<const MeasuringScope> scope_;
  Condition placement_now_ = Condition::kUndisturbed;
  double placement_checked_us_ = 0;
};

// Runs it once. Throws dnnl::error.
Sample TimeOnce(const RunOnce& run, const InterferenceMonitor& monitor);

// kInterrupted if what happened between the readings spoils the latency.
Condition Between(const Interference& before, const Interference& after, double wall_us);

}  // namespace gpueta
