#include "calibration/backends/manifest/loaded_kernel.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// Bytes of random data that are made; larger buffers repeat them.
constexpr std::size_t kPatternBytes = std::size_t{4} << 20;

// How a floating type is laid out: bits of exponent and mantissa.
struct Layout {
  int exponent = 0;
  int mantissa = 0;
  int bits() const { return 1 + exponent + mantissa; }
};

// None: an integer type.
std::optional<Layout> LayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return Layout{11, 52};
    case DType::kFp32:
    case DType::kTf32: return Layout{8, 23};
    case DType::kFp16: return Layout{5, 10};
    case DType::kBf16: return Layout{8, 7};
    case DType::kFp8: return Layout{4, 3};
    case DType::kInt8:
    case DType::kInt4: break;
  }
  return std::nullopt;
}

// Numbers below 1 in magnitude and none that is tiny, so that sums stay finite;
// any integers.
std::vector<std::byte> RandomNumbers(DType dtype, std::size_t bytes, std::uint64_t seed) {
  constexpr std::uint64_t kOctaves = 6;
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(bytes);
  const std::optional<Layout> layout = LayoutOf(dtype);
  const std::size_t step = layout.has_value() ? static_cast<std::size_t>(layout->bits() / 8) : 1;
  for (std::size_t at = 0; at + step <= bytes; at += step) {
    std::uint64_t value = random();
    if (layout.has_value()) {
      const std::uint64_t bias = (std::uint64_t{1} << (layout->exponent - 1)) - 1;
      const std::uint64_t exponent = bias - 1 - (value >> 32) % kOctaves;
      const std::uint64_t mantissa = value & ((std::uint64_t{1} << layout->mantissa) - 1);
      const std::uint64_t sign = value >> 63 << (layout->bits() - 1);
      value = sign | exponent << layout->mantissa | mantissa;
    }
    for (std::size_t b = 0; b < step; ++b) out[at + b] = static_cast<std::byte>(value >> (8 * b));
  }
  return out;
}

// The start of what a buffer holds, to be repeated.
std::vector<std::byte> PatternOf(const LaunchArgument& argument, DType dtype, std::uint64_t seed) {
  const std::size_t bytes = std::min(static_cast<std::size_t>(argument.buffer_bytes), kPatternBytes);
  if (argument.fill == BufferArgument::Fill::kZero) return std::vector<std::byte>(bytes);
  return RandomNumbers(dtype, bytes, seed);
}

absl::StatusOr<DeviceBuffer> FilledBuffer(CudaDevice& device, const LaunchArgument& argument, DType dtype,
                                          std::uint64_t seed) {
  GPUETA_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                          DeviceBuffer::Allocate(device, static_cast<std::size_t>(argument.buffer_bytes)));
  const std::vector<std::byte> pattern = PatternOf(argument, dtype, seed);
  for (std::size_t done = 0; done < buffer.size(); done += pattern.size()) {
    const auto part = std::span(pattern).first(std::min(pattern.size(), buffer.size() - done));
    GPUETA_RETURN_IF_ERROR(device.CopyToDevice(buffer.pointer() + done, part));
  }
  return buffer;
}

Dim3 DimOf(const std::array<std::uint32_t, 3>& extent) { return {extent[0], extent[1], extent[2]}; }

}  // namespace

absl::Status LoadedKernel::Launch(StreamHandle stream) {
  return device_->Launch(function_, geometry_, arguments_, stream);
}

std::size_t LoadedKernel::memory_bytes() const {
  std::size_t bytes = 0;
  for (const DeviceBuffer& buffer : buffers_) bytes += buffer.size();
  return bytes;
}

KernelLoader::~KernelLoader() {
  for (const auto& [name, module] : modules_) device_.UnloadModule(module).IgnoreError();
}

absl::StatusOr<std::unique_ptr<LoadedKernel>> KernelLoader::Load(const ManifestKernels::Runnable& runnable,
                                                                 std::uint64_t seed) {
  auto kernel = LoadUnnamed(runnable, seed);
  if (!kernel.ok()) return Prefixed(kernel.status(), runnable.manifest->name);
  return kernel;
}

absl::StatusOr<std::unique_ptr<LoadedKernel>> KernelLoader::LoadUnnamed(const ManifestKernels::Runnable& runnable,
                                                                        std::uint64_t seed) {
  const KernelManifest& manifest = *runnable.manifest;
  const KernelLaunch& launch = *runnable.launch;
  auto module = modules_.find(manifest.name);
  if (module == modules_.end()) {
    GPUETA_ASSIGN_OR_RETURN(const ModuleHandle loaded,
                            device_.LoadModule(std::as_bytes(std::span(runnable.code->image))));
    module = modules_.emplace(manifest.name, loaded).first;
  }
  auto kernel = std::unique_ptr<LoadedKernel>(new LoadedKernel);
  kernel->device_ = &device_;
  GPUETA_ASSIGN_OR_RETURN(kernel->function_, device_.FindFunction(module->second, manifest.entry));
  kernel->geometry_ = {
      .grid = DimOf(launch.grid), .block = DimOf(launch.block), .cluster = {}, .dynamic_shared = launch.shared_bytes};
  const std::size_t count = launch.arguments.size();
  kernel->pointers_.assign(count, 0);
  kernel->values_.resize(count);
  kernel->arguments_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const LaunchArgument& argument = launch.arguments[i];
    if (!argument.is_buffer) {
      kernel->values_[i] = argument.value;
      kernel->arguments_[i] = kernel->values_[i].data();
      continue;
    }
    kernel->arguments_[i] = &kernel->pointers_[i];
    if (argument.buffer_bytes == 0) continue;  // a null pointer
    GPUETA_ASSIGN_OR_RETURN(DeviceBuffer buffer, FilledBuffer(device_, argument, manifest.dtype, seed + i));
    kernel->pointers_[i] = buffer.pointer();
    kernel->buffers_.push_back(std::move(buffer));
  }
  return kernel;
}

}  // namespace gpueta
