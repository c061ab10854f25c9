// Fitting the rungs of MICRO'23's ladder (core/profile/ladder.h), by least squares
// on the relative error.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/device/spec.h"
#include "core/fit/whole_model_fit.h"
#include "core/measurements/measurements.h"
#include "core/profile/profile.h"

namespace gpueta {

// Inter-GPU kernel-wise: one entry a label, "*" (all rows) first. `rows` by device, none empty.
std::vector<LadderLine> FitInterGpu(const std::map<std::string, std::vector<const Measurement*>>& rows,
                                    const std::map<std::string, DeviceSpec>& specs);

// The rungs below it, of one device. Kernel-wise: one
// entry for each kernel that at least three rows name, else for each label,
// on whichever measure of work errs least. Layer-wise: one a label, on FLOPs.
// "*" first; `rows` is not empty.
std::vector<LadderLine> FitKernelWise(const std::vector<const Measurement*>& rows, const DeviceSpec& spec);
std::vector<LadderLine> FitLayerWise(const std::vector<const Measurement*>& rows, const DeviceSpec& spec);

// End-to-end: one line for the steps of each kind among the times of one device,
// as Profile::end_to_end wants them. Slope and constant are not negative; steps
// without convolutions and products are left out.
std::vector<EndToEnd> FitEndToEnd(std::span<const ModelTime> times);

}  // namespace gpueta
