#include "calibration/backends/cuda/driver/driver_api.h"

#include <string>

#include "calibration/backends/cuda/driver/shared_library.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Twice, so that the name is that of the version that the header means.
#define GPUETA_NAME(function) #function
#define GPUETA_VERSIONED_NAME(function) GPUETA_NAME(function)

absl::StatusOr<DriverApi> LoadOnce() {
  GPUETA_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open({"libcuda.so.1"}));
  DriverApi api;
  std::string missing;
#define GPUETA_LOAD(function) library.Load(api.function, GPUETA_VERSIONED_NAME(function), missing);
  GPUETA_GREEN_CONTEXT_FUNCTIONS(GPUETA_LOAD)
  missing.clear();
  GPUETA_DRIVER_FUNCTIONS(GPUETA_LOAD)
  // Before CUDA 12.8 it had the same parameters under its plain name.
  std::string versioned;
  library.Load(api.cuEventElapsedTime, GPUETA_VERSIONED_NAME(cuEventElapsedTime), versioned);
  if (!versioned.empty()) library.Load(api.cuEventElapsedTime, "cuEventElapsedTime", missing);
#undef GPUETA_LOAD
  if (!missing.empty())
    return FailedPrecondition("{} has no {}: CUDA 12.0 or newer is needed", library.name(), missing);
  GPUETA_CU(api, cuInit, 0);
  return api;
}

}  // namespace

absl::StatusOr<const DriverApi*> LoadDriverApi() {
  static const absl::StatusOr<DriverApi> api = LoadOnce();
  if (!api.ok()) return api.status();
  return &*api;
}

absl::Status DriverApi::StatusOf(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const bool known = cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr;
  const std::string message = fmt::format("{}: {}", call, known ? name : std::to_string(result));
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return absl::ResourceExhaustedError(message);
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE: return absl::InvalidArgumentError(message);
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return absl::InvalidArgumentError(message + " (the driver is older than the toolkit that made it)");
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_INVALID_DEVICE: return absl::NotFoundError(message);
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_MPS_CONNECTION_FAILED: return absl::FailedPreconditionError(message);
    case CUDA_ERROR_DEVICE_UNAVAILABLE: return absl::UnavailableError(message);
    case CUDA_ERROR_NOT_PERMITTED: return absl::PermissionDeniedError(message);
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_UNSUPPORTED_LIMIT:
    case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER: return absl::UnimplementedError(message);
    default: return absl::InternalError(message);
  }
}

}  // namespace gpueta
