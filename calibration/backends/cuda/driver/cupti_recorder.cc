// ActivityRecorder through CUPTI.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "calibration/backends/cuda/driver/activity.h"
#include "calibration/backends/cuda/driver/shared_library.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// clang-format off
#define GPUETA_CUPTI_FUNCTIONS(F) \
  F(cuptiActivityEnable) F(cuptiActivityDisable) F(cuptiActivityRegisterCallbacks) F(cuptiActivityFlushAll) \
  F(cuptiActivityGetNextRecord) F(cuptiGetResultString)
// clang-format on

struct Api {
#define GPUETA_DECLARE(function) decltype(&::function) function = nullptr;
  GPUETA_CUPTI_FUNCTIONS(GPUETA_DECLARE)
#undef GPUETA_DECLARE
};

absl::StatusOr<Api> LoadApi() {
  GPUETA_ASSIGN_OR_RETURN(const SharedLibrary library,
                          SharedLibrary::Open({"libcupti.so.13", "libcupti.so.12", "libcupti.so"}));
  Api api;
  std::string missing;
#define GPUETA_LOAD(function) library.Load(api.function, #function, missing);
  GPUETA_CUPTI_FUNCTIONS(GPUETA_LOAD)
#undef GPUETA_LOAD
  if (!missing.empty()) return FailedPrecondition("{} has no {}", library.name(), missing);
  return api;
}

// CUPTI calls back without an argument of ours: what it delivers is kept here.
struct Delivered {
  std::mutex mutex;
  const Api* api = nullptr;
  std::vector<KernelActivity> activities;
};
Delivered& TheDelivered() {
  static Delivered delivered;
  return delivered;
}

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::size_t kBufferAlignment = 8;  // CUPTI's

void CUPTIAPI RequestBuffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *max_records = 0;  // as many as fit
}

std::string Demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

void CUPTIAPI TakeBuffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Delivered& delivered = TheDelivered();
  const std::lock_guard lock(delivered.mutex);
  CUpti_Activity* record = nullptr;
  while (delivered.api->cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    const auto dim = [](std::int32_t x, std::int32_t y, std::int32_t z) {
      return Dim3{static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z)};
    };
    delivered.activities.push_back({.name = Demangled(kernel->name),
                                    .grid = dim(kernel->gridX, kernel->gridY, kernel->gridZ),
                                    .block = dim(kernel->blockX, kernel->blockY, kernel->blockZ),
                                    .start_us = static_cast<double>(kernel->start) * 1e-3,
                                    .end_us = static_cast<double>(kernel->end) * 1e-3});
  }
  std::free(buffer);
}

class CuptiRecorder : public ActivityRecorder {
 public:
  explicit CuptiRecorder(const Api& api) : api_(api) {}

  absl::Status Start() override {
    {
      const std::lock_guard lock(TheDelivered().mutex);
      TheDelivered().activities.clear();
    }
    return StatusOf(api_.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
  }

  absl::StatusOr<std::vector<KernelActivity>> Stop() override {
    const CUptiResult flushed = api_.cuptiActivityFlushAll(0);
    const CUptiResult disabled = api_.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    GPUETA_RETURN_IF_ERROR(StatusOf(flushed, "cuptiActivityFlushAll"));
    GPUETA_RETURN_IF_ERROR(StatusOf(disabled, "cuptiActivityDisable"));
    const std::lock_guard lock(TheDelivered().mutex);
    std::vector<KernelActivity> activities = std::exchange(TheDelivered().activities, {});
    std::ranges::sort(activities, {}, &KernelActivity::start_us);
    return activities;
  }

  absl::Status StatusOf(CUptiResult result, const char* call) const {
    if (result == CUPTI_SUCCESS) return absl::OkStatus();
    const char* text = nullptr;
    api_.cuptiGetResultString(result, &text);
    const std::string message = fmt::format("{}: {}", call, text != nullptr ? text : "unknown error");
    if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) return absl::PermissionDeniedError(message);
    return absl::InternalError(message);
  }

 private:
  const Api& api_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ActivityRecorder>> OpenActivityRecorder() {
  static const absl::StatusOr<Api> api = LoadApi();
  if (!api.ok()) return FailedPrecondition("{}", MessageOf(api.status()));
  TheDelivered().api = &*api;
  auto recorder = std::make_unique<CuptiRecorder>(*api);
  GPUETA_RETURN_IF_ERROR(recorder->StatusOf(api->cuptiActivityRegisterCallbacks(RequestBuffer, TakeBuffer),
                                            "cuptiActivityRegisterCallbacks"));
  return recorder;
}

}  // namespace gpueta
