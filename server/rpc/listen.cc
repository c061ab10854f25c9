#include "server/rpc/listen.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include "core/base/errors.h"
#include "server/logging.h"

namespace gpueta {
namespace {

constexpr const char* kServices[] = {"gpueta.v1.PredictionService", "gpueta.v1.ProfileService"};

// The host of "host:port", "[::1]:port"; empty for other forms (unix:PATH).
std::string HostOf(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  return address.starts_with("unix:") || colon == std::string::npos ? "" : address.substr(0, colon);
}

void LogGrpcMessage(gpr_log_func_args* args) { Log(LogLevel::kDebug, "grpc", {{"message", args->message}}); }

}  // namespace

void SetUpGrpc() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::channelz::experimental::InitChannelzService();
  gpr_set_log_function(LogGrpcMessage);
}

void SetHealth(grpc::Server& server, bool serving) {
  grpc::HealthCheckServiceInterface* health = server.GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus(serving);
  for (const char* service : kServices) health->SetServingStatus(service, serving);
}

absl::StatusOr<ListeningServer> Listen(const std::string& address, std::int64_t message_bytes,
                                       const std::vector<grpc::Service*>& services) {
  grpc::ServerBuilder builder;
  int port = 0;
  // Without it a second server would silently share the port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(message_bytes));
  builder.SetMaxSendMessageSize(static_cast<int>(message_bytes));
  for (grpc::Service* service : services) builder.RegisterService(service);
  ListeningServer listening{builder.BuildAndStart(), address};
  if (listening.server == nullptr || port == 0) {
    return Unavailable(
        "cannot listen on {}: the port is taken, or the address is not one of this machine; give another --listen",
        address);
  }
  if (const std::string host = HostOf(address); !host.empty()) listening.address = fmt::format("{}:{}", host, port);
  SetHealth(*listening.server, true);
  return listening;
}

}  // namespace gpueta
