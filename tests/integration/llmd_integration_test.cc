// gpueta-llmd and gpueta-server as processes: a router's questions over HTTP,
// answered over a Unix socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/llmd/testing_http.h"
#include "tests/integration/server_process.h"

namespace gpueta::testing_util {
namespace {

using nlohmann::json;

json Row(double kv, int tokens, int running, int waiting) {
  return {{"kv_cache_percentage", kv},      {"input_token_length", tokens}, {"num_request_waiting", waiting},
          {"num_request_running", running}, {"num_tokens_generated", 1},    {"prefix_cache_score", 0.0}};
}

TEST(LlmdIntegrationTest, ARouterIsAnsweredOverTheServersSocket) {
  const TemporaryDirectory directory;
  const std::string socket = "unix:" + directory.path() + "/gpueta.sock";
  const auto server = ServerProcess::Start(GPUETA_SERVER_BINARY, {"--listen", socket, "--metrics-listen", "off",
                                                                  "--profiles", GPUETA_SOURCE_DIR "/profiles"});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto llmd =
      ServerProcess::Start(GPUETA_LLMD_BINARY, {GPUETA_SOURCE_DIR "/tests/data/configs/llama-3.2-1b/config.json",
                                                "--device", "h100-sxm", "--server", socket, "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(llmd.ok()) << llmd.status();
  const auto ask = [&](const std::string& method, const std::string& path, const std::string& body, int status) {
    const auto answers = llmd::OverHttp((*llmd)->address(), method, path, body, 1);
    EXPECT_EQ(answers.at(0).first, status) << answers.at(0).second;
    return json::parse(answers.at(0).second);
  };
  EXPECT_EQ(ask("GET", "/readyz", "", 200)["status"], "ready");
  const json one = ask("POST", "/predict", Row(0.3, 1000, 10, 0).dump(), 200);
  EXPECT_GT(one["ttft_ms"], 0);
  EXPECT_GT(one["tpot_ms"], 0);
  json rows = json::array();
  for (int i = 0; i < 20; ++i) rows.push_back(Row(0.3, 1000, 10, 20 * i));
  const json bulk = ask("POST", "/predict/bulk/strict", json{{"requests", rows}}.dump(), 200);
  ASSERT_EQ(bulk["successful_predictions"], 20);
  EXPECT_EQ(bulk["predictions"][0]["ttft_ms"], one["ttft_ms"]);
  for (std::size_t i = 1; i < 20; ++i) {  // behind a longer queue
    EXPECT_GT(bulk["predictions"][i]["ttft_ms"], bulk["predictions"][i - 1]["ttft_ms"]);
  }
  // Engines that take 3 ms a step besides their kernels.
  json entries = json::array();
  for (int i = 0; i < 60; ++i) {
    json entry = Row(0.3, 1000, 10, 0);
    entry["actual_ttft_ms"] = 50;
    entry["actual_tpot_ms"] = one["tpot_ms"].get<double>() + 3;
    entries.push_back(entry);
  }
  ask("POST", "/add_training_data_bulk", json{{"entries", entries}}.dump(), 202);
  EXPECT_GT(ask("POST", "/predict", Row(0.3, 1000, 10, 0).dump(), 200)["tpot_ms"].get<double>(),
            one["tpot_ms"].get<double>() + 2);
  (*server)->Kill();
  EXPECT_THAT(ask("POST", "/predict", Row(0.3, 1000, 10, 0).dump(), 503)["detail"].get<std::string>(),
              ::testing::HasSubstr("gpueta-server"));
  EXPECT_EQ(ask("GET", "/healthz", "", 200)["status"], "ok");
}

}  // namespace
}  // namespace gpueta::testing_util
