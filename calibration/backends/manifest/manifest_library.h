// Kernels of manifests as a library of the CUDA backend.
#pragma once

#include <memory>

#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/ops/operation.h"
#include "calibration/backends/manifest/manifest_kernels.h"

namespace gpueta {

// Supports the kernels that `kernels` gave as candidates. Their operations have
// memory of their own, the same in every run: what of it fits into the L2 cache is
// warm. The device and `kernels` must outlive it.
std::unique_ptr<OperatorLibrary> MakeManifestLibrary(CudaDevice& device, const ManifestKernels& kernels);

}  // namespace gpueta
