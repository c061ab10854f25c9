// Real HTTP on loopback, for tests.
#pragma once

#include <civetweb.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gpueta::llmd {

// `count` requests down one connection to 127.0.0.1:PORT: their statuses and
// bodies.
inline std::vector<std::pair<int, std::string>> OverHttp(const std::string& address, const std::string& method,
                                                         const std::string& path, const std::string& body, int count) {
  std::vector<std::pair<int, std::string>> answers;
  char error[200] = "";
  mg_connection* connection =
      mg_connect_client("127.0.0.1", std::stoi(address.substr(address.rfind(':') + 1)), 0, error, sizeof(error));
  EXPECT_NE(connection, nullptr) << error;
  if (connection == nullptr) return answers;
  for (int i = 0; i < count; ++i) {
    mg_printf(connection, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", method.c_str(),
              path.c_str(), body.size());
    mg_write(connection, body.data(), body.size());
    if (mg_get_response(connection, error, sizeof(error), 10'000) < 0) {
      ADD_FAILURE() << error;
      break;
    }
    std::string text;
    char buffer[4096];
    for (int got = 0; (got = mg_read(connection, buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    answers.emplace_back(mg_get_response_info(connection)->status_code, text);
  }
  mg_close_connection(connection);
  return answers;
}

}  // namespace gpueta::llmd
