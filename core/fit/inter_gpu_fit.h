// The inter-GPU kernel-wise regression as published (Li et al., "Path Forward
// Beyond Simulators", MICRO 2023): each kernel's time is linear in one measure
// of its work, with a slope linear in 1/bandwidth over devices.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/device/spec.h"
#include "core/measurements/measurements.h"
#include "core/profile/profile.h"

namespace gpueta {

// One entry a label, "*" (all rows) first. `rows` by device, none empty.
std::vector<InterGpu> FitInterGpu(const std::map<std::string, std::vector<const Measurement*>>& rows,
                                  const std::map<std::string, DeviceSpec>& specs);

// The rungs below it, of one device: t = slope·work + constant. Kernel-wise: one
// entry for each kernel that at least three rows name, else for each label,
// on whichever measure of work errs least. Layer-wise: one a label, on FLOPs.
// "*" first; `rows` is not empty.
std::vector<InterGpu> FitKernelWise(const std::vector<const Measurement*>& rows, const DeviceSpec& spec);
std::vector<InterGpu> FitLayerWise(const std::vector<const Measurement*>& rows, const DeviceSpec& spec);

}  // namespace gpueta
