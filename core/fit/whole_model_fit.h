// Learning from times of whole models: what devices have in common, and how one
// machine departs from it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/device/spec.h"
#include "core/ops/kernel.h"
#include "core/profile/ladder.h"
#include "core/profile/profile.h"
#include "core/profile/whole_model.h"

namespace gpueta {

// One measured time of a model's step.
struct ModelTime {
  std::string device;  // slug
  std::string run;     // what else sets the machine apart: source and options
  std::vector<CountedKernel> parts;
  StepWork work;
  double input_bytes = 0;
  double latency_us = 0;
};

// The kernels that a step runs, equal ones as one part.
std::vector<CountedKernel> PartsOf(std::span<const Kernel> kernels);

// ln(µs) by the form, without what models deviate.
double WholeModelLn(const ModelTime& time, const DeviceSpec& spec, std::span<const double> theta,
                    const WholeModel::Departure& departure);

// The parameters of all, and each machine's departure, by regularised least
// squares on ln(time) with a soft-L1 loss; a device counts once however many
// machines it was in. `specs` has each row's device; `times` is not empty.
WholeModel FitWholeModels(std::span<const ModelTime> times, const std::map<std::string, DeviceSpec>& specs);

// `prior` is of the device (WholeModelFor); any number of its times, from one
// on, give the posterior of its departure: the mode, and the covariance by
// Laplace's approximation.
WholeModel UpdateWholeModel(const WholeModel& prior, std::span<const ModelTime> times, const DeviceSpec& spec);

}  // namespace gpueta
