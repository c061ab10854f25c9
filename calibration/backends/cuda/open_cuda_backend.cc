// Puts the backend of a real device together from what this machine has.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibration/backends/cuda/collectives/plan.h"
#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/driver/nccl_communicators.h"
#include "calibration/backends/cuda/ops/cublaslt_library.h"
#include "calibration/backends/cuda/ops/cudnn_library.h"
#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/ops/moe/moe_library.h"
#include "calibration/backends/cuda/ops/vector_library.h"
#include "calibration/backends/manifest/manifest_library.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Moves what could be opened to its place, else notes what its lack disables.
template <class Part, class Place>
void Add(absl::StatusOr<Part> part, std::string_view disabled, Place&& place, std::vector<std::string>& notes) {
  if (part.ok()) {
    place(*std::move(part));
  } else {
    notes.push_back(fmt::format("{}: {}", disabled, MessageOf(part.status())));
  }
}

// Every library that is there, opened on the parts' device.
void AddLibraries(CudaParts& parts, const CudaOptions& options) {
  const auto add_library = [&](std::unique_ptr<OperatorLibrary> library) {
    parts.libraries.push_back(std::move(library));
  };
  Add(OpenCublasLt(*parts.device), "no matrix products and no mixtures of experts (cuBLASLt)", add_library,
      parts.notes);
  if (!parts.libraries.empty()) {
    Add(LoadMoeLibrary(*parts.device, *parts.libraries.front(), MoeKernelsPtx(), MoeFp8KernelsPtx()),
        "no mixtures of experts", add_library, parts.notes);
  }
  Add(OpenCudnn(*parts.device), "no convolutions and no attention (cuDNN)", add_library, parts.notes);
  Add(LoadVectorLibrary(*parts.device, VectorKernelsPtx()), "no vector operators", add_library, parts.notes);
  if (options.own_kernels != nullptr) add_library(MakeManifestLibrary(*parts.device, *options.own_kernels));
}

// The other devices that collectives can run on, and what runs them. The thread's device
// is another one afterwards.
void AddCollectives(CudaDriver& driver, int ordinal, CudaParts& parts) {
  constexpr std::string_view kDisabled = "no collectives";
  std::vector<DeviceProperties> devices;
  for (int other = 0; other < driver.DeviceCount(); ++other) {
    if (auto properties = driver.PropertiesOf(other); properties.ok()) devices.push_back(*std::move(properties));
  }
  const std::vector<int> ordinals = RankOrdinals(devices, ordinal);
  if (ordinals.size() < 2) {
    parts.notes.push_back(fmt::format("{}: cuda:{} is the only GPU of its kind here", kDisabled, ordinal));
    return;
  }
  Add(
      OpenNccl(), "no collectives (NCCL)",
      [&](std::unique_ptr<CollectiveLibrary> library) { parts.collectives = std::move(library); }, parts.notes);
  if (parts.collectives == nullptr) return;
  for (const int other : std::span(ordinals).subspan(1)) {
    Add(
        driver.Open(other), fmt::format("{} with cuda:{}", kDisabled, other),
        [&](std::unique_ptr<CudaDevice> device) {
          absl::StatusOr<std::unique_ptr<Card>> card = driver.OpenCard(other);
          parts.peers.push_back({.device = std::move(device), .card = card.ok() ? *std::move(card) : nullptr});
        },
        parts.notes);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(int ordinal, const CudaOptions& options) {
  GPUETA_ASSIGN_OR_RETURN(const std::unique_ptr<CudaDriver> driver, OpenCudaDriver());
  CudaParts parts;
  // CUPTI wants to be there before the device's context.
  Add(
      OpenActivityRecorder(), "kernels' names and device times are not recorded (CUPTI)",
      [&](std::unique_ptr<ActivityRecorder> recorder) { parts.activities = std::move(recorder); }, parts.notes);
  GPUETA_ASSIGN_OR_RETURN(parts.device, driver->Open(ordinal));
  Add(
      driver->OpenCard(ordinal), "clocks, power and throttling go unnoticed (NVML)",
      [&](std::unique_ptr<Card> card) { parts.card = std::move(card); }, parts.notes);
  if (options.collectives) {
    AddCollectives(*driver, ordinal, parts);
    GPUETA_RETURN_IF_ERROR(parts.device->Activate());
  }
  AddLibraries(parts, options);
  return MakeCudaBackend(std::move(parts), options);
}

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackendOn(std::unique_ptr<CudaDevice> device,
                                                           std::unique_ptr<Card> card, const CudaOptions& options) {
  CudaParts parts;
  parts.device = std::move(device);
  parts.card = std::move(card);
  AddLibraries(parts, options);
  return MakeCudaBackend(std::move(parts), options);
}

}  // namespace gpueta
