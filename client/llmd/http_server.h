// HTTP/1.1 with kept connections, by civetweb.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/llmd/http_service.h"

namespace gpueta::llmd {

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(std::string_view method, std::string_view path, std::string_view body)>;

  // Serves at HOST:PORT (port 0: a free one) on its own threads until destroyed.
  // Bodies of more than 16 MB are answered 413. UNAVAILABLE where the address
  // cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, Handler handler);
  virtual ~HttpServer() = default;
  virtual const std::string& address() const = 0;
};

}  // namespace gpueta::llmd
