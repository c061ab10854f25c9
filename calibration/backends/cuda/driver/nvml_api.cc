#include "calibration/backends/cuda/driver/nvml_api.h"

#include <string>

#include "calibration/backends/cuda/driver/shared_library.h"
#include "core/base/errors.h"

namespace gpueta::nvml {
namespace {

absl::StatusOr<Api> LoadOnce() {
  GPUETA_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open({"libnvidia-ml.so.1"}));
  Api api;
  std::string missing;
#define GPUETA_LOAD(function) library.Load(api.function, #function, missing)
  GPUETA_LOAD(nvmlSystemGetDriverVersion);
  GPUETA_LOAD(nvmlDeviceGetUUID);
  GPUETA_LOAD(nvmlDeviceGetName);
  GPUETA_LOAD(nvmlDeviceGetVbiosVersion);
  GPUETA_LOAD(nvmlDeviceGetEccMode);
  GPUETA_LOAD(nvmlDeviceGetMigMode);
  GPUETA_LOAD(nvmlDeviceGetPersistenceMode);
  GPUETA_LOAD(nvmlDeviceGetComputeMode);
  GPUETA_LOAD(nvmlDeviceGetMaxClockInfo);
  GPUETA_LOAD(nvmlDeviceGetClockInfo);
  GPUETA_LOAD(nvmlDeviceGetPowerUsage);
  GPUETA_LOAD(nvmlDeviceGetPowerManagementLimit);
  GPUETA_LOAD(nvmlDeviceGetPowerManagementDefaultLimit);
  GPUETA_LOAD(nvmlDeviceGetPowerManagementLimitConstraints);
  GPUETA_LOAD(nvmlDeviceGetTemperature);
  GPUETA_LOAD(nvmlDeviceGetUtilizationRates);
  GPUETA_LOAD(nvmlDeviceGetCurrentClocksThrottleReasons);
  GPUETA_LOAD(nvmlDeviceGetComputeRunningProcesses_v3);
  GPUETA_LOAD(nvmlDeviceGetSupportedMemoryClocks);
  GPUETA_LOAD(nvmlDeviceGetSupportedGraphicsClocks);
  GPUETA_LOAD(nvmlDeviceSetGpuLockedClocks);
  GPUETA_LOAD(nvmlDeviceResetGpuLockedClocks);
  GPUETA_LOAD(nvmlDeviceSetMemoryLockedClocks);
  GPUETA_LOAD(nvmlDeviceResetMemoryLockedClocks);
  GPUETA_LOAD(nvmlDeviceSetPowerManagementLimit);
  // Without these nothing can be done; the others are asked for one by one.
  missing.clear();
  GPUETA_LOAD(nvmlInit_v2);
  GPUETA_LOAD(nvmlErrorString);
  GPUETA_LOAD(nvmlDeviceGetHandleByPciBusId_v2);
#undef GPUETA_LOAD
  if (!missing.empty()) return FailedPrecondition("{} has no {}: a newer driver is needed", library.name(), missing);
  GPUETA_RETURN_IF_ERROR(StatusOf(api, api.nvmlInit_v2(), "nvmlInit"));
  return api;
}

}  // namespace

absl::StatusOr<const Api*> Load() {
  static const absl::StatusOr<Api> api = LoadOnce();
  if (!api.ok()) return api.status();
  return &*api;
}

absl::Status StatusOf(const Api& api, Result result, const char* call) {
  if (result == kSuccess) return absl::OkStatus();
  const std::string message = fmt::format("{}: {}", call, api.nvmlErrorString(result));
  switch (result) {
    case kInvalidArgument: return absl::InvalidArgumentError(message);
    case kNotSupported:
    case kFunctionNotFound: return absl::UnimplementedError(message);
    case kNoPermission: return absl::PermissionDeniedError(message);
    case kNotFound: return absl::NotFoundError(message);
    case kDriverNotLoaded: return absl::FailedPreconditionError(message);
    case kGpuIsLost:
    case kResetRequired: return absl::UnavailableError(message);
    default: return absl::InternalError(message);
  }
}

}  // namespace gpueta::nvml
