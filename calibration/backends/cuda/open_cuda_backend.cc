// Puts the backend of a real device together from what this machine has.
#include <utility>

#include "calibration/backends/cuda/cuda_backend.h"
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
