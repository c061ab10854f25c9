#include "client/llmd/row_predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/errors.h"

namespace gpueta::llmd {
namespace {

// A server whose engines take a millisecond a running request for each token,
// and what they are told besides.
absl::StatusOr<v1::AdmitResponse> Admit(const v1::AdmitRequest& request, std::vector<v1::AdmitRequest>* asked) {
  if (asked != nullptr) asked->push_back(request);
  v1::AdmitResponse response;
  for (const v1::Candidate& candidate : request.candidates()) {
    const v1::Replica& replica = request.replicas(std::stoi(candidate.among(0)));
    const double running = static_cast<double>(replica.metrics().running() + 1);
    v1::ReplicaDecision& decision = *response.add_admissions()->add_replicas();
    decision.set_tpot_us(1e3 * running + request.engines(0).overhead().step_us());
    decision.set_ttft_us(static_cast<double>(candidate.prompt_tokens()));
    if (candidate.prompt_tokens() > 1'000'000) decision.set_ttft_us(std::numeric_limits<double>::infinity());
  }
  return response;
}

RowPredictor Make(std::vector<v1::AdmitRequest>* asked = nullptr) {
  return RowPredictor({}, [asked](const v1::AdmitRequest& request) { return Admit(request, asked); });
}

TEST(RowPredictorTest, EachRowIsAReplicaOfItsOwn) {
  std::vector<v1::AdmitRequest> asked;
  const std::vector<Row> rows = {{.kv_cache_percentage = 0.5,
                                  .input_token_length = 1000,
                                  .num_request_waiting = 2,
                                  .num_request_running = 3,
                                  .prefix_cache_score = 0.25,
                                  .prefill_tokens_in_flight = 800},
                                 {.input_token_length = 500, .num_tokens_generated = 70},
                                 {.input_token_length = 2'000'000}};
  const auto answers = Make(&asked).Predict(rows);
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ((*answers)[0]->tpot_ms, 4);
  EXPECT_EQ((*answers)[0]->ttft_ms, 1);
  EXPECT_EQ((*answers)[1]->ttft_ms, 0.5);
  EXPECT_FALSE((*answers)[2].ok());
  ASSERT_EQ(asked.size(), 1U);
  const v1::AdmitRequest& request = asked[0];
  EXPECT_EQ(request.replicas(0).metrics().kv_usage(), 0.5);
  EXPECT_EQ(request.replicas(0).metrics().mean_prompt_tokens(), 400);
  EXPECT_EQ(request.candidates(0).cached(0).tokens(), 250);
  // The request that is under way is asked for as it will be, and as it is.
  ASSERT_EQ(request.candidates_size(), 4);
  EXPECT_EQ(request.candidates(2).prompt_tokens(), 570);
  EXPECT_EQ(request.candidates(2).cached(0).tokens(), 570);
}

TEST(RowPredictorTest, ManyRowsAreSeveralCalls) {
  std::vector<v1::AdmitRequest> asked;
  std::vector<Row> rows(10'000, Row{.input_token_length = 10, .num_request_running = 40});
  rows[0].num_request_running = 1 << 15;
  const auto answers = Make(&asked).Predict(rows);
  ASSERT_TRUE(answers.ok());
  EXPECT_EQ(answers->size(), rows.size());
  EXPECT_GT(asked.size(), 4U);
  for (const v1::AdmitRequest& request : asked) EXPECT_LE(request.replicas_size(), 4096);
}

TEST(RowPredictorTest, LearnsWhatEnginesTakeBesides) {
  RowPredictor predictor = Make();
  std::vector<Sample> samples;
  for (int i = 0; i < 60; ++i) {
    samples.push_back({.row = {.input_token_length = 10, .num_request_running = i}, .tpot_ms = 1.0 * (i + 1) + 0.7});
  }
  samples.push_back({.row = {.input_token_length = 10}});  // no tokens yet
  ASSERT_EQ(predictor.Learn(std::span(samples).first(20)), absl::OkStatus());
  EXPECT_EQ(predictor.overhead().step_us, 0);  // too few
  ASSERT_EQ(predictor.Learn(samples), absl::OkStatus());
  EXPECT_NEAR(predictor.overhead().step_us, 700, 1e-3);
  const Row idle{.input_token_length = 1};
  EXPECT_NEAR((*predictor.Predict({&idle, 1}))[0]->tpot_ms, 1.7, 1e-6);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(predictor.Learn(samples), absl::OkStatus());
  EXPECT_EQ(predictor.samples(), 1024U);  // no more are kept
}

TEST(RowPredictorTest, AServerThatDoesNotAnswerIsTheErrorOfAll) {
  RowPredictor predictor({}, [](const v1::AdmitRequest&) { return absl::UnavailableError("gone"); });
  const std::vector<Row> rows(3);
  EXPECT_TRUE(absl::IsUnavailable(predictor.Predict(rows).status()));
  const Sample sample{.row = {}, .ttft_ms = 1, .tpot_ms = 1};
  EXPECT_TRUE(absl::IsUnavailable(predictor.Learn({&sample, 1})));
  EXPECT_EQ(predictor.samples(), 0U);
}

}  // namespace
}  // namespace gpueta::llmd
