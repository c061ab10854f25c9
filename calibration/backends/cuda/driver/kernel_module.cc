#include "calibration/backends/cuda/driver/kernel_module.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {

absl::StatusOr<KernelModule> KernelModule::Load(CudaDevice& device, std::string_view ptx) {
  KernelModule module;
  GPUETA_ASSIGN_OR_RETURN(module.module_, device.LoadModule(std::as_bytes(std::span(ptx))));
  module.device_ = &device;
  return module;
}

KernelModule::KernelModule(KernelModule&& other) noexcept { *this = std::move(other); }

KernelModule& KernelModule::operator=(KernelModule&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(module_, other.module_);
  std::swap(functions_, other.functions_);
  return *this;
}

KernelModule::~KernelModule() {
  if (device_ != nullptr) device_->UnloadModule(module_).IgnoreError();
}

absl::StatusOr<std::uint32_t> KernelModule::BlocksToFill(const std::string& entry, std::uint32_t threads) {
  GPUETA_ASSIGN_OR_RETURN(const FunctionHandle function, Find(entry));
  const absl::StatusOr<int> resident = device_->ResidentBlocks(function, static_cast<int>(threads), 0);
  if (!resident.ok()) return Prefixed(resident.status(), entry);
  return static_cast<std::uint32_t>(std::max(1, *resident * device_->properties().sm_count));
}

absl::StatusOr<FunctionHandle> KernelModule::Find(const std::string& entry) {
  if (device_ == nullptr) return FailedPrecondition("{}: no kernels are loaded", entry);
  if (const auto known = functions_.find(entry); known != functions_.end()) return known->second;
  GPUETA_ASSIGN_OR_RETURN(const FunctionHandle function, device_->FindFunction(module_, entry));
  functions_[entry] = function;
  return function;
}

absl::Status KernelModule::LaunchWith(const std::string& entry, std::uint32_t blocks, std::uint32_t threads,
                                      StreamHandle stream, std::span<void* const> arguments) {
  GPUETA_ASSIGN_OR_RETURN(const FunctionHandle function, Find(entry));
  LaunchGeometry geometry;
  geometry.grid.x = blocks;
  geometry.block.x = threads;
  return Prefixed(device_->Launch(function, geometry, arguments, stream), entry);
}

}  // namespace gpueta
