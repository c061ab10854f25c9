// A device that can be restricted, so that it acts like a weaker one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/control/configuration.h"

namespace gpueta {

// Used by one thread. The destructor restores.
class DeviceControl {
 public:
  virtual ~DeviceControl() = default;

  virtual const ControlSpace& space() const = 0;
  // What it restricts, as DeviceLock names it; empty: nothing that is to be locked.
  virtual std::string device() const { return ""; }

  // Makes the device so, and opens it: kernels run by the backend run on the
  // device as it is configured. The backend lives until the next Apply or
  // Restore. INVALID_ARGUMENT for what is not possible in the space;
  // FAILED_PRECONDITION when the system does not let it be set.
  virtual absl::StatusOr<Backend*> Apply(const Configuration& configuration) = 0;

  // The peak rates and the bandwidth of the device as it is configured, measured,
  // for some seconds; never what a data sheet says. FAILED_PRECONDITION before
  // Apply. Errors as Backend::Describe.
  virtual absl::StatusOr<DeviceSpec> MeasureSpec() = 0;

  // What kept the device from being as configured since Apply, in words, e.g.
  // another process on its units; empty if nothing did.
  virtual std::string Disturbance() const = 0;

  // Everything as it was before the first Apply.
  virtual absl::Status Restore() = 0;
};

}  // namespace gpueta
