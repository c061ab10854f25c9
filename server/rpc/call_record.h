// What happens around every call, whatever it asks: metrics, a request id, and
// a line in the log if it fails. (gRPC's interceptors would do this outside of
// the services, but send every read and write through the completion queue
// once more.)
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "server/metrics/metrics.h"
#include "server/rpc/handoff.h"

namespace gpueta {

// The metadata key of a call's id, for finding it in the log. A client's own is
// sent back; a call that fails without one gets one.
inline constexpr char kRequestIdKey[] = "x-request-id";

// Lives as long as its call is worked on. Used by one thread at a time. (Unary
// calls keep it beside gRPC's default reactor: one of our own would cost a hop
// to another thread when gRPC is done with it.)
class CallRecord {
 public:
  // `method` is "/service/method", static storage; `metrics` and `context` must
  // outlive this.
  CallRecord(Metrics& metrics, const char* method, grpc::CallbackServerContext& context);
  ~CallRecord();
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  // The status to finish the call with. Call it once, before the call is
  // finished; after that the context is not touched any more.
  grpc::Status End(const absl::Status& status);

 private:
  Metrics* metrics_;
  const char* method_;
  grpc::CallbackServerContext* context_;
  std::chrono::steady_clock::time_point start_;
  std::string request_id_;
  absl::Status status_;
  Handoff handoff_;
};

}  // namespace gpueta
