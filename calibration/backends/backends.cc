#include "calibration/backends/backends.h"

#include <charconv>

#include "calibration/backends/cpu/cpu_backend.h"
#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/replay/replay_backend.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::string_view kCuda = "cuda:";
constexpr std::string_view kReplay = "replay:";

}  // namespace

ChosenDevice ChooseDevice() {
  const absl::StatusOr<std::unique_ptr<CudaDriver>> driver = OpenCudaDriver();
  if (!driver.ok()) return {.device = "cpu", .reason = MessageOf(driver.status())};
  const int devices = (*driver)->DeviceCount();
  return {.device = "cuda:0", .reason = devices == 1 ? "the only GPU" : fmt::format("the first of {} GPUs", devices)};
}

std::optional<int> CudaOrdinalOf(std::string_view device) {
  if (!device.starts_with(kCuda)) return std::nullopt;
  int ordinal = 0;
  const char* end = device.data() + device.size();
  const auto [parsed, error] = std::from_chars(device.data() + kCuda.size(), end, ordinal);
  if (error != std::errc() || parsed != end || ordinal < 0) return std::nullopt;
  return ordinal;
}

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view device, const OpenOptions& options) {
  if (device == "auto") return OpenBackend(ChooseDevice().device, options);
  if (const std::optional<int> ordinal = CudaOrdinalOf(device); ordinal.has_value()) {
    CudaOptions cuda;
    if (options.timing.has_value()) cuda.timing = *options.timing;
    cuda.own_kernels = options.own_kernels;
    cuda.collectives = options.collectives;
    cuda.l2 = options.l2;
    absl::StatusOr<std::unique_ptr<Backend>> backend = OpenCudaBackend(*ordinal, cuda);
    if (absl::IsFailedPrecondition(backend.status())) {
      return FailedPrecondition("{}: {}; use cpu or replay:FILE.csv", device, MessageOf(backend.status()));
    }
    return backend;
  }
  if (options.own_kernels != nullptr)
    return InvalidArgument("{}: kernels of manifests run on CUDA devices only", device);
  if (options.collectives) return InvalidArgument("{}: collectives run on CUDA devices only", device);
  if (options.l2 != L2State::kAsInModel) {
    return InvalidArgument("{}: a cache that is {} is a choice of CUDA devices only", device, Name(options.l2));
  }
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      InvalidArgument("device \"{}\": expected auto, cpu, cuda:N or replay:FILE.csv", device);
  if (device == "cpu") backend = OpenCpuBackend();
  if (device.starts_with(kReplay)) backend = OpenReplayBackend(std::string(device.substr(kReplay.size())));
  if (backend.ok() && options.timing.value_or((*backend)->timing()) != (*backend)->timing()) {
    return InvalidArgument("{}: timing is \"{}\"", device, Name((*backend)->timing()));
  }
  return backend;
}

}  // namespace gpueta
