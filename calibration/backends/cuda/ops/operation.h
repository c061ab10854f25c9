// What libraries of kernels offer to the CUDA backend.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_types.h"
#include "core/ops/kernel.h"

namespace gpueta {

inline constexpr std::size_t kMaxCudaInputs = 4;

// Device memory that one operation works on, in bytes; 0 where it needs none.
struct OperandBytes {
  std::array<std::size_t, kMaxCudaInputs> inputs{};  // activations
  std::size_t weights = 0;                           // what lasts from run to run
  std::size_t output = 0;
  std::size_t workspace = 0;  // of the library
};

struct Operands {
  std::array<DevicePointer, kMaxCudaInputs> inputs{};
  DevicePointer weights = 0;
  DevicePointer output = 0;
  DevicePointer workspace = 0;
};

// A kernel as a library runs it, ready to be enqueued any number of times.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual const OperandBytes& bytes() const = 0;
  // The kernel's name and geometry as far as the library tells before it runs.
  virtual Launch launch() const = 0;
  // Enqueues it once, without waiting and without allocating.
  virtual absl::Status Enqueue(const Operands& operands, StreamHandle stream) = 0;
};

// Kernels of one library on one open device, which must outlive it.
class OperatorLibrary {
 public:
  virtual ~OperatorLibrary() = default;
  // For Measurement::source, e.g. "cublaslt".
  virtual std::string name() const = 0;
  // For the profile's labels, e.g. "13.1.0".
  virtual std::string version() const = 0;

  // UNIMPLEMENTED saying what is missing. Cheap: no call of the library.
  virtual absl::Status Supports(const Kernel& kernel) const = 0;
  // By the algorithm that launch.kernel names, where it is a name of this library's,
  // else by the one that the library's heuristic gives the shape. UNIMPLEMENTED for a
  // shape that the library refuses; NOT_FOUND for an algorithm that it does not have
  // for this shape.
  virtual absl::StatusOr<std::unique_ptr<Operation>> Prepare(const Kernel& kernel) = 0;
  // Names for launch.kernel, the heuristic's own choice first.
  virtual absl::StatusOr<std::vector<std::string>> Algorithms(const Kernel&) { return std::vector<std::string>{}; }
};

}  // namespace gpueta
