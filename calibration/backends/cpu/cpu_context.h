// What everything that runs on the processor shares.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

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

  // What other kernels would have in the caches next to the cores: as large as
  // all of those together.
  std::span<std::byte> OthersData();

  // Whether the cores are where they should be: kUndisturbed or kSlowed.
  Condition PlacementNow();

 private:
  std::vector<std::byte> others_data_;
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
