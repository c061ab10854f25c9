#include "calibration/backends/cuda/ops/cudnn/descriptor.h"

#include <string>

#include "calibration/backends/cuda/driver/shared_library.h"

namespace gpueta::cudnn {
namespace {

absl::StatusOr<Api> LoadOnce() {
  GPUETA_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open({"libcudnn_graph.so.9", "libcudnn.so.9"}));
  Api api;
  std::string missing;
#define GPUETA_LOAD(function) library.Load(api.function, #function, missing);
  GPUETA_CUDNN_FUNCTIONS(GPUETA_LOAD)
#undef GPUETA_LOAD
  if (!missing.empty()) return FailedPrecondition("{} has no {}", library.name(), missing);
  return api;
}

}  // namespace

absl::Status Api::StatusOf(cudnnStatus_t status, const char* call) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message = fmt::format("{}: {}", call, cudnnGetErrorString(status));
  // Statuses from 2000 are of bad parameters, from 3000 of what it does not support.
  const int group = static_cast<int>(status) / 1000;
  return group == 2 || group == 3 ? absl::UnimplementedError(message) : absl::InternalError(message);
}

absl::StatusOr<const Api*> Load() {
  static const absl::StatusOr<Api> api = LoadOnce();
  if (!api.ok()) return api.status();
  return &*api;
}

}  // namespace gpueta::cudnn
