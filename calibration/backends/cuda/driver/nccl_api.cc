#include "calibration/backends/cuda/driver/nccl_api.h"

#include <string>

#include "calibration/backends/cuda/driver/shared_library.h"
#include "core/base/errors.h"

namespace gpueta::nccl {
namespace {

absl::StatusOr<Api> LoadOnce() {
  GPUETA_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open({"libnccl.so.2", "libnccl.so"}));
  Api api;
  std::string missing;
#define GPUETA_LOAD(function) library.Load(api.function, #function, missing)
  GPUETA_LOAD(ncclGetLastError);
  missing.clear();
  GPUETA_LOAD(ncclGetVersion);
  GPUETA_LOAD(ncclGetErrorString);
  GPUETA_LOAD(ncclCommInitAll);
  GPUETA_LOAD(ncclCommDestroy);
  GPUETA_LOAD(ncclCommAbort);
  GPUETA_LOAD(ncclCommGetAsyncError);
  GPUETA_LOAD(ncclAllReduce);
  GPUETA_LOAD(ncclAllGather);
  GPUETA_LOAD(ncclReduceScatter);
  GPUETA_LOAD(ncclSend);
  GPUETA_LOAD(ncclRecv);
  GPUETA_LOAD(ncclGroupStart);
  GPUETA_LOAD(ncclGroupEnd);
#undef GPUETA_LOAD
  if (!missing.empty())
    return FailedPrecondition("{} has no {}: NCCL 2.10 or newer is needed", library.name(), missing);
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
  std::string message = fmt::format("{}: {}", call, api.ncclGetErrorString(result));
  if (const char* words = api.ncclGetLastError != nullptr ? api.ncclGetLastError(nullptr) : nullptr;
      words != nullptr && *words != '\0') {
    message += fmt::format(" ({})", words);
  }
  switch (result) {
    case kSystemError: return absl::UnavailableError(message);
    case kInvalidArgument:
    case kInvalidUsage: return absl::InvalidArgumentError(message);
    default: return absl::InternalError(message);
  }
}

}  // namespace gpueta::nccl
