// A model's latency on a device that is not here, measured on a stronger host
// that is configured to act like it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/measure.h"
#include "calibration/backends/timing.h"
#include "calibration/control/device_control.h"
#include "calibration/control/rates.h"
#include "calibration/control/search.h"
#include "core/predict/estimate.h"

namespace gpueta {

struct EmulationOptions {
  SearchPolicy search;
  GraphPolicy timing;
  // Probed configurations in which the model runs too, to learn its
  // elasticities, where the host does not reach the target.
  std::size_t neighbours = 3;
  std::function<void(double share, const std::string& what)> progress;
};

// What became of a goal.
struct ClassMatch {
  KernelClass kernels;
  double weight = 0;
  double host = 0;  // rates, see LogRate: unrestricted, wanted, in the configuration chosen; 0: unknown
  double target = 0;
  double reached = 0;
};

struct TriedConfiguration {
  std::string text;
  double distance = 0;
};

struct Emulation {
  // Parts carry provenance `emulated`; memory_bytes is left at 0. Quantiles
  // hold: the noise of the timing; that of the rates, shared by all kernels; how
  // well the elasticities are known where the host falls short of the target;
  // and what two devices with the same rates still differ by.
  GraphEstimate estimate;
  std::string host;        // slug, unrestricted
  double measured_us = 0;  // in the configuration, before the residual correction
  Configuration configuration{};
  std::string configuration_text;
  double distance = 0;  // from the goals, see Distance
  std::vector<TriedConfiguration> tried;
  std::size_t neighbours = 0;
  std::vector<ClassMatch> classes;
};

// `target` is as measured by MeasureRates on it, unless the host is in the
// catalogue: then it is a data sheet as the host's there is.
//
// Finds the configuration, measures the model there, corrects for what the host
// does not reach, restores the host. Takes a few seconds a probe and a few runs
// of the model. Errors as MeasureGraph, DeviceControl::Apply and
// Backend::Describe; the host is restored then too.
absl::StatusOr<Emulation> Emulate(DeviceControl& control, const DeviceRates& target, std::span<const Kernel> kernels,
                                  const EmulationOptions& options, const MicrosecondClock& clock);

}  // namespace gpueta
