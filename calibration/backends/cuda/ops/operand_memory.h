// Device memory for the operands of kernels that are timed.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/cuda/ops/operation.h"
#include "core/ops/dtype.h"

namespace gpueta {

// Elements of a type with random sign, mantissa and a magnitude of 1/16 to 1; small
// integers for integer types. No zeros, denormals, infinities: what they cost in
// power and time is not what real data cost.
std::vector<std::byte> RandomElements(std::size_t bytes, DType dtype);

// Operands of one kernel: activations of its own, and its weights several times
// over, so that going round the copies finds them cold.
class KernelOperands {
 public:
  // The operands of the run of this number: weights of the next copy.
  Operands OfRun(std::size_t run) const;
  std::size_t copies() const { return copies_; }

 private:
  friend class OperandMemory;
  Operands operands_;
  std::vector<DeviceBuffer> activations_;
  std::size_t stride_ = 0;  // bytes from one copy of the weights to the next
  std::size_t copies_ = 1;
};

class OperandMemory {
 public:
  OperandMemory(CudaDevice& device, StreamHandle stream) : device_(device), stream_(stream) {}

  // Filled with random elements, the same every 4 MiB. With `cold_weights` the copies exceed twice the L2
  // cache together. What was handed out before keeps its activations but not its
  // weights. RESOURCE_EXHAUSTED naming the bytes that do not fit.
  absl::StatusOr<KernelOperands> ForKernel(const OperandBytes& bytes, DType dtype, bool cold_weights);

  // For the kernels of a model in order: each with its own weights; activations are
  // handed on in a ring.
  absl::StatusOr<std::vector<Operands>> ForModel(const std::vector<OperandBytes>& bytes, DType dtype);

  // Enqueues writing to twice the L2 cache.
  absl::Status FlushL2();

 private:
  absl::StatusOr<DeviceBuffer> Random(std::size_t bytes, DType dtype);
  absl::StatusOr<DevicePointer> Weights(std::size_t bytes, DType dtype);

  CudaDevice& device_;
  StreamHandle stream_;
  DeviceBuffer weights_;
  DType weights_dtype_ = DType::kFp32;
  std::map<DType, std::vector<std::byte>> patterns_;
  std::vector<DeviceBuffer> ring_;
  DeviceBuffer flush_;
};

}  // namespace gpueta
