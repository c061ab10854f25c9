#include "calibration/backends/backends.h"

#include <algorithm>

#include "calibration/backends/cpu/cpu_backend.h"
#include "calibration/backends/replay/replay_backend.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::string_view kCuda = "cuda:";
constexpr std::string_view kReplay = "replay:";

bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

ChosenDevice ChooseDevice() { return {.device = "cpu", .reason = "this build has no CUDA backend"}; }

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view device) {
  if (device == "auto") return OpenBackend(ChooseDevice().device);
  if (device == "cpu") return OpenCpuBackend();
  if (device.starts_with(kReplay)) return OpenReplayBackend(std::string(device.substr(kReplay.size())));
  if (device.starts_with(kCuda) && IsNumber(device.substr(kCuda.size()))) {
    return FailedPrecondition("{}: this build has no CUDA backend; use cpu or replay:FILE.csv", device);
  }
  return InvalidArgument("device \"{}\": expected auto, cpu, cuda:N or replay:FILE.csv", device);
}

}  // namespace gpueta
