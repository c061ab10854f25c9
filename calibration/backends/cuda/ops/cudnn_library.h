// Convolutions and attention through cuDNN's graph API.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/ops/operation.h"

namespace gpueta {

// Convolutions in fp32 (without TF32), tf32, fp16 and bf16; tensors are NCHW in fp32 and
// tf32 and NHWC in the 16-bit types, as tensor cores want them. Fused attention in fp16 and
// bf16. The heuristic's first engine that runs the shape within the workspace, or the one
// named: algorithms are engines with their knobs, "cudnn_eng12_k2=5_k3=0". Gradients are
// asked for by name (cudnn/engine_name.h): "cudnn_dgrad" and "cudnn_wgrad" of a
// convolution, "cudnn_bwd" of attention, an engine behind it or not. In builds with the
// CUDA toolkit only. FAILED_PRECONDITION where libcudnn_graph is missing.
absl::StatusOr<std::unique_ptr<OperatorLibrary>> OpenCudnn(CudaDevice& device);

}  // namespace gpueta
