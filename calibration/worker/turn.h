// Being a good neighbour: when it is the worker's turn to use the device.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/timing.h"

namespace gpueta {

struct TurnPolicy {
  // Largest share of time in which the device is used; in (0, 1].
  double max_duty = 1;
  // Wait while something else uses the device.
  bool wait_for_idle = true;
  double look_again_us = 5e6;
  // Looking costs a pause where others could be using it: not before every kernel.
  double look_every_us = 2e6;
};

// Asked before each kernel, or model that runs as a whole. Time passes by `time`, which must be the backend's.
class WorkerTurn {
 public:
  WorkerTurn(Backend& backend, const TurnPolicy& policy, HostTime time);

  // Returns when it is the worker's turn. Errors as Backend::UsedByOthers.
  absl::Status Wait();

 private:
  Backend& backend_;
  TurnPolicy policy_;
  HostTime time_;
  std::optional<double> used_since_us_;
  double looked_us_ = 0;
};

}  // namespace gpueta
