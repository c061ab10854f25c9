// The backends there are, by the names users give.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/l2_state.h"
#include "core/ops/timing.h"

namespace gpueta {

// What "auto" means on this machine, and why.
struct ChosenDevice {
  std::string device;
  std::string reason;
};
ChosenDevice ChooseDevice();

// N of "cuda:N"; nullopt for another name.
std::optional<int> CudaOrdinalOf(std::string_view device);

class ManifestKernels;  // calibration/backends/manifest/manifest_kernels.h

struct OpenOptions {
  std::optional<Timing> timing;  // what is measured; unset: as the backend does it
  // Kernels that no library chooses; nullptr: none. CUDA devices run them. Must
  // outlive the backend.
  const ManifestKernels* own_kernels = nullptr;
  // Collectives, for which the other devices of the node are opened, too. CUDA devices
  // have them.
  bool collectives = false;
  // Of kernels that are timed alone. CUDA devices have a choice.
  L2State l2 = L2State::kAsInModel;
};

// "cpu", "cuda:N", "replay:FILE.csv", or "auto" for ChooseDevice().device.
// INVALID_ARGUMENT for another name, or a timing, own kernels, collectives or a state of the
// cache that the backend does not measure;
// FAILED_PRECONDITION when the device cannot be used here, saying why.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view device, const OpenOptions& options = {});

}  // namespace gpueta
