#include "client/llmd/http_server.h"

#include <civetweb.h>

#include <utility>

#include "core/base/errors.h"

namespace gpueta::llmd {
namespace {

constexpr long long kMostBytes = 16 << 20;
constexpr char kThreads[] = "32";  // a kept connection holds one

// The body, or the status to refuse it with.
int ReadBody(mg_connection* connection, std::string& body) {
  constexpr int kTooLarge = 413, kOk = 200;
  const long long announced = mg_get_request_info(connection)->content_length;
  if (announced > kMostBytes) return kTooLarge;
  if (announced > 0) body.reserve(static_cast<std::size_t>(announced));
  char buffer[1 << 14];
  for (int got = 0; (got = mg_read(connection, buffer, sizeof(buffer))) > 0;) {
    body.append(buffer, static_cast<std::size_t>(got));
    if (static_cast<long long>(body.size()) > kMostBytes) return kTooLarge;
  }
  return kOk;
}

class CivetwebServer final : public HttpServer {
 public:
  explicit CivetwebServer(Handler handler) : handler_(std::move(handler)) {}
  ~CivetwebServer() override {
    if (context_ != nullptr) mg_stop(context_);
    mg_exit_library();
  }

  absl::Status Open(const std::string& address) {
    mg_init_library(0);
    const char* options[] = {"listening_ports",
                             address.c_str(),
                             "num_threads",
                             kThreads,
                             "enable_keep_alive",
                             "yes",
                             "keep_alive_timeout_ms",
                             "5000",
                             "request_timeout_ms",
                             "10000",
                             "tcp_nodelay",
                             "1",
                             nullptr};
    const mg_callbacks callbacks = {};
    context_ = mg_start(&callbacks, nullptr, options);
    mg_server_port port = {};
    if (context_ == nullptr || mg_get_server_ports(context_, 1, &port) < 1) {
      return Unavailable("cannot listen on {}: the port is taken, or the address is not one of this machine", address);
    }
    address_ = fmt::format("{}:{}", address.substr(0, address.rfind(':')), port.port);
    mg_set_request_handler(context_, "/", &Serve, this);
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

 private:
  static int Serve(mg_connection* connection, void* self) {
    std::string body;
    const mg_request_info& info = *mg_get_request_info(connection);
    HttpAnswer answer;
    const int read = ReadBody(connection, body);
    if (constexpr int kOk = 200; read == kOk) {
      answer = static_cast<CivetwebServer*>(self)->handler_(info.request_method, info.local_uri, body);
    } else {
      answer = {read, R"({"detail":"the body is too large"})"};
    }
    mg_response_header_start(connection, answer.status);
    mg_response_header_add(connection, "Content-Type", "application/json", -1);
    const std::string length = std::to_string(answer.body.size());
    mg_response_header_add(connection, "Content-Length", length.c_str(), -1);
    mg_response_header_send(connection);
    mg_write(connection, answer.body.data(), answer.body.size());
    return answer.status;
  }

  Handler handler_;
  mg_context* context_ = nullptr;
  std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, Handler handler) {
  auto server = std::make_unique<CivetwebServer>(std::move(handler));
  GPUETA_RETURN_IF_ERROR(server->Open(address));
  return server;
}

}  // namespace gpueta::llmd
