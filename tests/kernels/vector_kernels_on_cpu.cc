// Our vector kernels as a device that runs their source on the CPU, but for those of 16 bits.
#include <cstring>
#include <map>
#include <span>
#include <string>

#include "calibration/backends/cuda/ops/testing_kernel_device.h"
#include "tests/kernels/cpu_cuda_device.h"

namespace {

std::map<std::string, gpueta::CpuCudaDevice::Kernel>& Entries() {
  static std::map<std::string, gpueta::CpuCudaDevice::Kernel> entries;
  return entries;
}

template <class T>
T At(std::span<void* const> arguments, std::size_t i) {
  T value;
  std::memcpy(&value, arguments[i], sizeof value);
  return value;
}

template <class T>
using Entry = void(T*, const T*, const T*, const T*, T*, const T*, long long, long long, long long);
template <class T>
bool List(const char* name, Entry<T>* entry) {
  Entries()[name] = [entry](std::span<void* const> a) {
    entry(At<T*>(a, 0), At<const T*>(a, 1), At<const T*>(a, 2), At<const T*>(a, 3), At<T*>(a, 4), At<const T*>(a, 5),
          At<long long>(a, 6), At<long long>(a, 7), At<long long>(a, 8));
  };
  return true;
}

}  // namespace

#define GPUETA_ENTRY(name, T) [[maybe_unused]] const bool name##_listed = List<T>(#name, name);
namespace vector_kernels_source {
#include "calibration/backends/cuda/ops/vector_kernels.cu"
}

namespace gpueta {

absl::StatusOr<KernelDevice> OpenKernelDevice() {
  constexpr std::size_t kMemoryBytes = std::size_t{1} << 30;
  return KernelDevice{.device = std::make_unique<CpuCudaDevice>(Entries(), kMemoryBytes), .floats = {DType::kFp32}};
}

}  // namespace gpueta
