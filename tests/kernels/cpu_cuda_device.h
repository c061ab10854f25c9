// A CUDA device whose memory is the host's and whose kernels run on the CPU, one
// thread of a block a thread of the CPU: for tests of what a launch is given.
// No time passes on it; streams are done at once; most other calls are refused.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "calibration/backends/cuda/driver/cuda_device.h"
#include "core/base/errors.h"
#include "tests/kernels/cuda_on_cpu.h"

namespace gpueta {

class CpuCudaDevice : public CudaDevice {
 public:
  // Runs one launch: `arguments` as cuLaunchKernel takes them.
  using Kernel = std::function<void(std::span<void* const> arguments)>;

  CpuCudaDevice(std::map<std::string, Kernel> kernels, std::size_t memory_bytes)
      : kernels_(std::move(kernels)), free_(memory_bytes) {}

  const DeviceProperties& properties() const override { return properties_; }
  absl::Status Activate() override { return absl::OkStatus(); }

  absl::StatusOr<DevicePointer> Allocate(std::size_t bytes) override {
    if (bytes > free_) return ResourceExhausted("{} bytes are wanted, {} are free", bytes, free_);
    free_ -= bytes;
    auto memory = std::make_unique<std::vector<std::byte>>(bytes);
    const auto pointer = reinterpret_cast<DevicePointer>(memory->data());
    memory_[pointer] = std::move(memory);
    return pointer;
  }
  absl::Status Free(DevicePointer pointer) override {
    free_ += memory_.at(pointer)->size();
    memory_.erase(pointer);
    return absl::OkStatus();
  }
  absl::Status CopyToDevice(DevicePointer to, std::span<const std::byte> from) override {
    std::memcpy(reinterpret_cast<void*>(to), from.data(), from.size());
    return absl::OkStatus();
  }
  absl::Status CopyToHost(std::span<std::byte> to, DevicePointer from) override {
    std::memcpy(to.data(), reinterpret_cast<const void*>(from), to.size());
    return absl::OkStatus();
  }
  absl::Status Fill(DevicePointer, std::uint8_t, std::size_t, StreamHandle) override { return Refused("Fill"); }
  absl::StatusOr<std::size_t> FreeMemory() override { return free_; }

  absl::StatusOr<ModuleHandle> LoadModule(std::span<const std::byte>) override {
    ++modules_;
    return ModuleHandle{1};
  }
  absl::Status UnloadModule(ModuleHandle) override {
    --modules_;
    return absl::OkStatus();
  }
  absl::StatusOr<FunctionHandle> FindFunction(ModuleHandle, const std::string& name) override {
    const auto found = kernels_.find(name);
    if (found == kernels_.end()) return NotFound("the module has no kernel \"{}\"", name);
    return FunctionHandle{static_cast<std::uint64_t>(std::distance(kernels_.begin(), found))};
  }
  absl::StatusOr<FunctionResources> ResourcesOf(FunctionHandle) override { return Refused("ResourcesOf"); }
  absl::StatusOr<int> ResidentBlocks(FunctionHandle, int, std::size_t) override { return Refused("ResidentBlocks"); }

  absl::Status Launch(FunctionHandle function, const LaunchGeometry& geometry, std::span<void* const> arguments,
                      StreamHandle) override {
    const Kernel& kernel = std::next(kernels_.begin(), static_cast<std::ptrdiff_t>(function))->second;
    cuda_on_cpu::Run({geometry.grid.x, geometry.grid.y, geometry.grid.z}, geometry.block.x, [&] { kernel(arguments); });
    return absl::OkStatus();
  }

  absl::StatusOr<StreamHandle> CreateStream() override { return StreamHandle{1}; }
  absl::Status DestroyStream(StreamHandle) override { return absl::OkStatus(); }
  absl::Status Synchronize(StreamHandle) override { return absl::OkStatus(); }
  void* NativeStream(StreamHandle) override { return nullptr; }
  absl::StatusOr<EventHandle> CreateEvent() override { return Refused("CreateEvent"); }
  absl::Status DestroyEvent(EventHandle) override { return Refused("DestroyEvent"); }
  absl::Status Record(EventHandle, StreamHandle) override { return Refused("Record"); }
  absl::StatusOr<bool> Reached(EventHandle) override { return Refused("Reached"); }
  absl::StatusOr<double> ElapsedUs(EventHandle, EventHandle) override { return Refused("ElapsedUs"); }
  absl::Status BeginCapture(StreamHandle) override { return Refused("BeginCapture"); }
  absl::StatusOr<GraphHandle> EndCapture(StreamHandle) override { return Refused("EndCapture"); }
  absl::Status LaunchGraph(GraphHandle, StreamHandle) override { return Refused("LaunchGraph"); }
  absl::Status DestroyGraph(GraphHandle) override { return Refused("DestroyGraph"); }
  absl::StatusOr<SmPartitions> SplitSms(int) override { return Refused("SplitSms"); }
  absl::Status SetAsideL2(std::size_t) override { return Refused("SetAsideL2"); }

  int modules() const { return modules_; }  // loaded now
  std::size_t buffers() const { return memory_.size(); }

 private:
  static absl::Status Refused(const char* call) { return absl::UnimplementedError(call); }

  DeviceProperties properties_;
  std::map<std::string, Kernel> kernels_;  // by entry
  std::map<DevicePointer, std::unique_ptr<std::vector<std::byte>>> memory_;
  std::size_t free_ = 0;
  int modules_ = 0;
};

}  // namespace gpueta
