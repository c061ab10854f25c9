// What happens around every call, whatever its method: metrics, a request id,
// and a line in the log for calls that fail.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "server/metrics/metrics.h"

namespace gpueta {

// The metadata key that carries a call's id: taken from the client if it sent
// one, made up otherwise, and sent back.
inline constexpr char kRequestIdKey[] = "x-request-id";

// `metrics` must outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallInterceptor(Metrics& metrics);

}  // namespace gpueta
