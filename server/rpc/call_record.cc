#include "server/rpc/call_record.h"

#include <random>

#include "core/base/errors.h"
#include "server/logging.h"
#include "server/rpc/status_mapping.h"

namespace gpueta {
namespace {

// Longer ones are no ids.
constexpr std::size_t kLongestRequestId = 128;

std::string MakeRequestId() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}", random());
}

// Callers who go away are everyday life.
LogLevel LevelOf(const absl::Status& status) {
  return status.ok() || absl::IsCancelled(status) ? LogLevel::kDebug : LogLevel::kInfo;
}

}  // namespace

CallRecord::CallRecord(Metrics& metrics, const char* method, grpc::CallbackServerContext& context)
    : metrics_(&metrics), method_(method), context_(&context), start_(std::chrono::steady_clock::now()) {
  metrics_->CallStarted(method_);
  const auto id = context.client_metadata().find(kRequestIdKey);
  if (id != context.client_metadata().end() && id->second.size() <= kLongestRequestId) {
    request_id_.assign(id->second.data(), id->second.size());
    context.AddInitialMetadata(kRequestIdKey, request_id_);
  }
  handoff_.Give();
}

grpc::Status CallRecord::End(const absl::Status& status) {
  handoff_.Take();
  status_ = status;
  if (!status.ok() && request_id_.empty()) {
    request_id_ = MakeRequestId();
    context_->AddTrailingMetadata(kRequestIdKey, request_id_);
  }
  handoff_.Give();
  return ToGrpc(status);
}

CallRecord::~CallRecord() {
  handoff_.Take();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  metrics_->CallHandled(method_, static_cast<int>(status_.code()), seconds);
  const LogLevel level = LevelOf(status_);
  if (!IsLogged(level)) return;
  Log(level, "call",
      {{"method", method_},
       {"code", GrpcCodeName(static_cast<int>(status_.code()))},
       {"ms", seconds * 1e3},
       {"request_id", request_id_},
       {"error", MessageOf(status_)}});
}

}  // namespace gpueta
