// What our own microbenchmark kernels ask of a simulated device.
#pragma once

#include <span>

#include "calibration/backends/cuda/simulated/simulated_gpu.h"

namespace gpueta {

// Fills in the operations and bytes of a kernel of micro_kernels.cu or tensor_kernels.cu by
// its name, as its arguments ask for; others are left as they are. Of chase nothing is
// known: it takes what an empty kernel takes.
void DescribeMicroKernel(SimulatedWork& work, std::span<void* const> arguments);

}  // namespace gpueta
