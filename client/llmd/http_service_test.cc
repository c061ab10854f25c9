#include "client/llmd/http_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/llmd/http_server.h"
#include "client/llmd/testing_http.h"

namespace gpueta::llmd {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kRow[] = R"({"kv_cache_percentage": 0.5, "input_token_length": 100, "num_request_waiting": 1,
    "num_request_running": 3, "num_tokens_generated": 0, "prefix_cache_score": 0, "encoder_input_size": 3})";

class HttpServiceTest : public ::testing::Test {
 protected:
  HttpServiceTest()
      : predictor_({}, [this](const v1::AdmitRequest& request) { return Admit(request); }),
        service_(predictor_, [] { return std::string("2026-01-01T00:00:00.000Z"); }) {}

  absl::StatusOr<v1::AdmitResponse> Admit(const v1::AdmitRequest& request) const {
    if (down_) return absl::UnavailableError("no answer from a server");
    v1::AdmitResponse response;
    for (const v1::Candidate& candidate : request.candidates()) {
      v1::ReplicaDecision& decision = *response.add_admissions()->add_replicas();
      decision.set_ttft_us(1e3 * static_cast<double>(candidate.prompt_tokens()));
      decision.set_tpot_us(5e3);
    }
    return response;
  }
  json Get(const std::string& path, int status = 200) { return Ask("GET", path, "", status); }
  json Post(const std::string& path, const std::string& body, int status = 200) {
    return Ask("POST", path, body, status);
  }
  json Ask(const std::string& method, const std::string& path, const std::string& body, int status) {
    const HttpAnswer answer = service_.Answer(method, path, body);
    EXPECT_EQ(answer.status, status) << method << " " << path << " " << answer.body;
    return json::parse(answer.body);
  }

  std::atomic<bool> down_ = false;
  RowPredictor predictor_;
  HttpService service_;
};

std::string Bulk(const std::string& list, const std::vector<std::string>& rows) {
  std::string body = "{\"" + list + "\": [";
  for (std::size_t i = 0; i < rows.size(); ++i) body += (i > 0 ? "," : "") + rows[i];
  return body + "]}";
}

TEST_F(HttpServiceTest, PredictsARowWithTheFieldsOfTheContract) {
  const json answer = Post("/predict", kRow);
  EXPECT_EQ(answer["ttft_ms"], 100);
  EXPECT_EQ(answer["tpot_ms"], 5);
  EXPECT_EQ(answer["quantile"], 0.9);
  for (const char* field : {"predicted_at", "model_type", "objective_type", "last_model_load"}) {
    EXPECT_TRUE(answer[field].is_string()) << field;
  }
}

TEST_F(HttpServiceTest, ABulkOfRowsIsAnsweredInOrder) {
  std::string longer = kRow;
  longer.replace(longer.find("100"), 3, "250");
  const json answer = Post("/predict/bulk/strict", Bulk("requests", {kRow, longer}));
  EXPECT_EQ(answer["predictions"][0]["ttft_ms"], 100);
  EXPECT_EQ(answer["predictions"][1]["ttft_ms"], 250);
  EXPECT_EQ(answer["total_requests"], 2);
  EXPECT_EQ(answer["successful_predictions"], 2);
  EXPECT_EQ(answer["failed_predictions"], 0);
  EXPECT_TRUE(answer["processing_time_ms"].is_number());
  EXPECT_FALSE(answer.contains("errors"));
}

TEST_F(HttpServiceTest, OneWrongRowFailsAloneUnlessStrict) {
  const std::string body = Bulk("requests", {R"({"kv_cache_percentage": 7})", kRow});
  const json answer = Post("/predict/bulk", body);
  EXPECT_TRUE(answer["predictions"][0].is_null());
  EXPECT_EQ(answer["predictions"][1]["ttft_ms"], 100);
  EXPECT_EQ(answer["failed_predictions"], 1);
  EXPECT_EQ(answer["errors"][0]["index"], 0);
  EXPECT_EQ(answer["errors"][0]["request"]["kv_cache_percentage"], 7);
  EXPECT_THAT(Post("/predict/bulk/strict", body, 422).dump(), HasSubstr("requests[0].kv_cache_percentage"));
}

TEST_F(HttpServiceTest, WrongBodiesNameTheirField) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "no JSON"},
      {"[]", "JSON object"},
      {"{}", "kv_cache_percentage"},
      {R"({"kv_cache_percentage": "x"})", "kv_cache_percentage"},
      {R"({"kv_cache_percentage": 0.5, "input_token_length": -1})", "input_token_length"},
  };
  for (const auto& [body, says] : cases) {
    EXPECT_THAT(Post("/predict", body, 422)["detail"].dump(), HasSubstr(says)) << body;
  }
  EXPECT_THAT(Post("/predict/bulk", R"({"requests": []})", 422).dump(), HasSubstr("requests"));
  EXPECT_THAT(Post("/add_training_data_bulk", Bulk("entries", {kRow, "{}"}), 422).dump(), HasSubstr("entries[1]"));
  Get("/nothing", 404);
  Get("/predict", 405);
}

TEST_F(HttpServiceTest, TakesSamples) {
  std::string sample = kRow;
  sample.insert(1, R"("actual_ttft_ms": 90, "actual_tpot_ms": 6.5, )");
  const json answer = Post("/add_training_data_bulk", Bulk("entries", std::vector<std::string>(60, sample)), 202);
  EXPECT_EQ(answer["message"], "Accepted 60 training samples.");
  EXPECT_EQ(Get("/status")["training_samples"], 60);
  // All of one load: the step took 1.5 ms more than its kernels.
  EXPECT_NEAR(Get("/status")["step_overhead_us"].get<double>(), 1500, 1e-3);
}

TEST_F(HttpServiceTest, IsReadyWhenTheServerAnswers) {
  EXPECT_EQ(Get("/readyz")["status"], "ready");
  down_ = true;
  EXPECT_THAT(Get("/readyz", 503)["detail"].get<std::string>(), HasSubstr("no answer"));
  Post("/predict", kRow, 503);
  EXPECT_EQ(Get("/healthz")["status"], "ok");
}

TEST_F(HttpServiceTest, SpeaksHttpOverKeptConnections) {
  const auto server = HttpServer::Start(
      "127.0.0.1:0", [this](auto method, auto path, auto body) { return service_.Answer(method, path, body); });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string& address = (*server)->address();
  std::vector<std::jthread> clients;
  std::atomic<int> right = 0;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&] {
      for (const auto& [status, body] : OverHttp(address, "POST", "/predict", kRow, 5)) {
        if (status == 200 && json::parse(body)["ttft_ms"] == 100) ++right;
      }
    });
  }
  clients.clear();
  EXPECT_EQ(right, 20);
  EXPECT_EQ(OverHttp(address, "GET", "/readyz", "", 1).at(0).first, 200);
  EXPECT_EQ(OverHttp(address, "POST", "/predict", "{}", 1).at(0).first, 422);
  EXPECT_TRUE(absl::IsUnavailable(HttpServer::Start(address, nullptr).status()));
}

}  // namespace
}  // namespace gpueta::llmd
