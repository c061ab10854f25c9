#include "server/rpc/call_interceptor.h"

#include <grpcpp/server_context.h>

#include <chrono>
#include <random>
#include <string>

#include "server/logging.h"
#include "server/rpc/handoff.h"

namespace gpueta {
namespace {

using Hook = grpc::experimental::InterceptionHookPoints;

constexpr std::size_t kLongestRequestId = 128;

std::string MakeRequestId() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}", random());
}

// Lives as long as its call; gRPC calls it for one batch of operations at a
// time, but from changing threads.
class CallInterceptor : public grpc::experimental::Interceptor {
 public:
  CallInterceptor(Metrics& metrics, std::string method)
      : metrics_(&metrics), method_(std::move(method)), start_(std::chrono::steady_clock::now()) {
    metrics_->CallStarted(method_);
    handoff_.Give();
  }

  // A call that ends without a status was cancelled.
  ~CallInterceptor() override {
    handoff_.Take();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    metrics_->CallHandled(method_, code_, seconds);
    const LogLevel level =
        code_ == grpc::StatusCode::OK || code_ == grpc::StatusCode::CANCELLED ? LogLevel::kDebug : LogLevel::kInfo;
    Log(level, "call",
        {{"method", method_},
         {"code", GrpcCodeName(code_)},
         {"ms", seconds * 1e3},
         {"request_id", request_id_},
         {"error", error_}});
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    handoff_.Take();
    if (methods->QueryInterceptionHookPoint(Hook::POST_RECV_INITIAL_METADATA))
      TakeRequestId(*methods->GetRecvInitialMetadata());
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_INITIAL_METADATA)) {
      if (request_id_.empty()) request_id_ = MakeRequestId();
      methods->GetSendInitialMetadata()->emplace(kRequestIdKey, request_id_);
    }
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      code_ = status.error_code();
      error_ = status.error_message();
    }
    handoff_.Give();
    methods->Proceed();
  }

 private:
  void TakeRequestId(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
    const auto it = metadata.find(kRequestIdKey);
    if (it != metadata.end() && it->second.size() <= kLongestRequestId)
      request_id_.assign(it->second.data(), it->second.size());
  }

  Metrics* metrics_;
  std::string method_;
  std::chrono::steady_clock::time_point start_;
  std::string request_id_;
  int code_ = grpc::StatusCode::CANCELLED;
  std::string error_;
  Handoff handoff_;
};

class CallInterceptorFactory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallInterceptorFactory(Metrics& metrics) : metrics_(&metrics) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new CallInterceptor(*metrics_, info->method());
  }

 private:
  Metrics* metrics_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallInterceptor(Metrics& metrics) {
  return std::make_unique<CallInterceptorFactory>(metrics);
}

}  // namespace gpueta
