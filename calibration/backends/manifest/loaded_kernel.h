// Kernels of manifests on a CUDA device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/manifest/manifest_kernels.h"

namespace gpueta {

// A kernel of one shape with its memory: ready to be enqueued, any number of
// times. Its device and the loader it comes from must outlive it.
class LoadedKernel {
 public:
  // Enqueues one launch. Errors as CudaDevice::Launch.
  absl::Status Launch(StreamHandle stream);

  // The memory of an argument; 0 of one that is no buffer.
  DevicePointer BufferOf(std::size_t argument) const { return pointers_[argument]; }
  std::size_t memory_bytes() const;

 private:
  friend class KernelLoader;
  LoadedKernel() = default;

  CudaDevice* device_ = nullptr;
  FunctionHandle function_{};
  LaunchGeometry geometry_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<DevicePointer> pointers_;         // one an argument
  std::vector<std::vector<std::byte>> values_;  // of arguments that are no buffers
  std::vector<void*> arguments_;                // into the two before
};

// Loads each manifest's code once. The device must outlive it.
class KernelLoader {
 public:
  explicit KernelLoader(CudaDevice& device) : device_(device) {}
  KernelLoader(const KernelLoader&) = delete;
  KernelLoader& operator=(const KernelLoader&) = delete;
  ~KernelLoader();

  // Errors begin with the manifest's name: RESOURCE_EXHAUSTED when its buffers do
  // not fit, NOT_FOUND for an entry that the code does not have, and what the
  // driver says of code that is not for this device.
  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const ManifestKernels::Runnable& runnable, std::uint64_t seed);

 private:
  absl::StatusOr<std::unique_ptr<LoadedKernel>> LoadUnnamed(const ManifestKernels::Runnable& runnable,
                                                            std::uint64_t seed);

  CudaDevice& device_;
  std::map<std::string, ModuleHandle> modules_;  // by the manifest's name
};

}  // namespace gpueta
