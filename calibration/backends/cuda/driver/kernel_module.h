// Compiled kernels that are unloaded with their owner.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"

namespace gpueta {

// The device must outlive it.
class KernelModule {
 public:
  // Errors as CudaDevice::LoadModule.
  static absl::StatusOr<KernelModule> Load(CudaDevice& device, std::string_view ptx);
  KernelModule() = default;
  KernelModule(KernelModule&& other) noexcept;
  KernelModule& operator=(KernelModule&& other) noexcept;
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;
  ~KernelModule();

  // As many blocks of `threads` as the device holds at once.
  absl::StatusOr<std::uint32_t> BlocksToFill(const std::string& entry, std::uint32_t threads);

  // Blocks along x. The arguments' types must be those of the entry. Errors name it.
  template <class... Arguments>
  absl::Status Launch(const std::string& entry, std::uint32_t blocks, std::uint32_t threads, StreamHandle stream,
                      Arguments... arguments) {
    void* pointers[] = {static_cast<void*>(&arguments)...};
    return LaunchWith(entry, blocks, threads, stream, pointers);
  }

 private:
  absl::StatusOr<FunctionHandle> Find(const std::string& entry);
  absl::Status LaunchWith(const std::string& entry, std::uint32_t blocks, std::uint32_t threads, StreamHandle stream,
                          std::span<void* const> arguments);

  CudaDevice* device_ = nullptr;
  ModuleHandle module_{};
  std::map<std::string, FunctionHandle> functions_;
};

}  // namespace gpueta
