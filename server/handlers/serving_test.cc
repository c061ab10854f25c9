#include "server/handlers/serving.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/serving/testing_models.h"
#include "gpueta/v1/serving.pb.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

template <class Message>
Message Text(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

class ServingTest : public ::testing::Test {
 protected:
  ServingTest() : store_(OpenStore("sqlite::memory:").value()) {
    models_ = ModelRegistry::Open(*store_, limits_).value();
    models_->RegisterConfig(testing::SmallLlama(), "small", "small").value();
    Activate(0);
  }

  void Activate(int variation) {
    auto loaded = ParseProfile(testing_util::MakeTestProfileFile("h100-sxm", variation));
    devices_ = ServingSnapshot::Build({{.loaded = *std::move(loaded), .node = "", .version = 1}}).value();
  }

  // Calls `ask` with the context.
  template <class Ask>
  absl::Status With(const Ask& ask, bool may_build = true) {
    const auto models = models_->Table();
    const std::function<bool()> cancelled = [this] { return cancelled_; };
    return ask(ServingContext{*devices_, *models, served_, limits_, cancelled, may_build});
  }
  absl::StatusOr<v1::AdmitResponse> Ask(const v1::AdmitRequest& request, bool may_build = true) {
    v1::AdmitResponse response;
    GPUETA_RETURN_IF_ERROR(With([&](const auto& context) { return Admit(context, request, response); }, may_build));
    return response;
  }
  absl::StatusOr<v1::MaxBatchResponse> Ask(const v1::MaxBatchRequest& request) {
    v1::MaxBatchResponse response;
    GPUETA_RETURN_IF_ERROR(With([&](const auto& context) { return MaxBatch(context, request, response); }));
    return response;
  }

  Limits limits_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ModelRegistry> models_;
  std::shared_ptr<const ServingSnapshot> devices_;
  ServedModels served_{std::size_t{64} << 20};
  bool cancelled_ = false;
};

constexpr char kEngine[] = R"(engines { model: "models/small" device { slug: "h100-sxm" } token_budget: 2048 } )";
constexpr char kAdmit[] = R"(
    replicas { name: "busy" waiting { prompt_tokens: 2000 output_tokens: 50 } waiting { prompt_tokens: 2000 } }
    replicas { name: "idle" }
    candidates { id: "r" prompt_tokens: 500 }
    limits { ttft { us: 1e6 } tpot { us: 1e5 } })";

TEST_F(ServingTest, DecidesAsAdmitDoesInProcess) {
  const auto response = Ask(Text<v1::AdmitRequest>(std::string("request_id: 'q' ") + kEngine + kAdmit));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->request_id(), "q");
  ASSERT_EQ(response->admissions_size(), 1);
  const v1::Admission& admission = response->admissions(0);
  EXPECT_EQ(admission.candidate(), "r");
  EXPECT_EQ(admission.recommended(), "idle");
  // By hand.
  const auto model = StepModel::Compile(testing::SmallLlama(), "small").value();
  const auto predictor = devices_->Find("h100-sxm", {}).value();
  const auto table =
      StepTable::Build(model, *predictor, {.tokens = 2048, .sequences = 256, .context = TableContext(0)}).value();
  Replica replicas[2];
  for (Replica& replica : replicas) {
    replica.table = &table;
    replica.state.limits = {.token_budget = 2048, .kv_blocks = RoomForCache(model, 80, 2048).value().blocks};
  }
  replicas[0].state.waiting = {{.sequence = {.prompt_tokens = 2000, .output_tokens = 50}},
                               {.sequence = {.prompt_tokens = 2000}}};
  const auto expected =
      Admit(replicas, {.prompt_tokens = 500}, {.ttft = LatencyLimit{.us = 1e6}, .tpot = LatencyLimit{.us = 1e5}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (int i = 0; i < 2; ++i) {
    const ReplicaDecision& decision = expected->replicas[static_cast<std::size_t>(i)];
    EXPECT_EQ(admission.replicas(i).ttft_us(), decision.ttft_us);
    EXPECT_EQ(admission.replicas(i).tpot_us(), decision.tpot_us);
    EXPECT_EQ(admission.replicas(i).margin(), decision.margin);
    EXPECT_EQ(admission.replicas(i).binds(), decision.binds);
  }
}

TEST_F(ServingTest, EveryDeviceOfAFleetHasItsOwnTable) {
  const auto response = Ask(Text<v1::AdmitRequest>(std::string(kEngine) + R"(
      engines { model: "models/small" device { slug: "t4" } deployment { dtype: DTYPE_FP16 } }
      replicas { name: "fast" } replicas { name: "slow" engine: 1 }
      candidates { prompt_tokens: 1000 } candidates { prompt_tokens: 2000 })"));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->admissions_size(), 2);
  for (const v1::Admission& admission : response->admissions()) {
    EXPECT_GT(admission.replicas(1).ttft_us(), 3 * admission.replicas(0).ttft_us());
  }
  EXPECT_GT(response->admissions(1).replicas(0).ttft_us(), response->admissions(0).replicas(0).ttft_us());
}

TEST_F(ServingTest, WrongQuestionsNameTheirField) {
  const auto field = [&](const std::string& text) { return FieldOf(Ask(Text<v1::AdmitRequest>(text)).status()); };
  const std::string engine = kEngine;
  const std::string replica = "replicas { name: 'a' } ";
  const std::string candidate = "candidates { prompt_tokens: 5 } ";
  EXPECT_EQ(field(engine + candidate), "replicas");
  EXPECT_EQ(field(engine + replica), "candidates");
  EXPECT_EQ(field(replica + candidate), "engines");
  EXPECT_EQ(field("engines { device { slug: 'h100-sxm' } }" + replica + candidate), "engines[0].model");
  EXPECT_EQ(field("engines { model: 'models/none' device { slug: 'h100-sxm' } }" + replica + candidate),
            "engines[0].model");
  EXPECT_EQ(field("engines { model: 'models/small' device { slug: 'h1' } }" + replica + candidate),
            "engines[0].device.slug");
  EXPECT_EQ(field(engine + replica + replica + candidate), "replicas[1].name");
  EXPECT_EQ(field(engine + "replicas { name: 'a' running { prompt_tokens: 5 computed_tokens: 9 } }" + candidate),
            "replicas[0].running[0].computed_tokens");
  EXPECT_EQ(field(engine + replica + candidate + "limits { e2e { us: inf } }"), "limits.e2e");
  EXPECT_EQ(field(engine + replica + "candidates { prompt_tokens: 5 among: 'b' }"), "candidates[0].among[0]");
  EXPECT_EQ(field(engine + "replicas { name: 'a' role: ROLE_PREFILL }" + candidate), "candidates[0].replicas[0].role");
  const std::string split =
      "engines { model: 'models/small' device { slug: 'h100-sxm' } deployment { tensor_ranks: 3 } }";
  EXPECT_EQ(field(split + replica + candidate), "candidates[0].engines[0]");
}

TEST_F(ServingTest, LimitsAreNamed) {
  const auto limit = [&] { return LimitOf(Ask(Text<v1::AdmitRequest>(std::string(kEngine) + kAdmit)).status()); };
  limits_.replicas = 1;
  EXPECT_EQ(limit(), "replicas");
  limits_ = {};
  limits_.engine_requests = 1;
  EXPECT_EQ(limit(), "engine_requests");
  limits_ = {};
  limits_.decisions = 2;
  EXPECT_EQ(limit(), "decisions");
}

TEST_F(ServingTest, WhatIsNotTabulatedIsMadeOnlyWhereItMay) {
  const auto request = Text<v1::AdmitRequest>(std::string(kEngine) + kAdmit);
  EXPECT_TRUE(absl::IsAborted(Ask(request, false).status()));
  ASSERT_TRUE(Ask(request).ok());
  EXPECT_TRUE(Ask(request, false).ok());
  // Another profile's tables are others.
  Activate(1);
  EXPECT_TRUE(absl::IsAborted(Ask(request, false).status()));
}

TEST_F(ServingTest, StopsWhenNobodyWaits) {
  cancelled_ = true;
  EXPECT_EQ(Ask(Text<v1::AdmitRequest>(std::string(kEngine) + kAdmit)).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ServingTest, AStreamAnswersAsAWholeQuestionDoes) {
  AdmitSession session(limits_);
  const auto item = [&](const std::string& text) {
    const auto request = Text<v1::StreamAdmitRequest>(text);
    v1::StreamAdmitResponse response;
    EXPECT_EQ(With([&](const auto& context) { return session.Change(context, request); }), absl::OkStatus()) << text;
    EXPECT_EQ(With([&](const auto& context) { return session.Judge(context, request, response); }), absl::OkStatus());
    return response;
  };
  EXPECT_EQ(item(std::string(kEngine) + "limits { ttft { us: 1e6 } tpot { us: 1e5 } } replicas { name: 'gone' }")
                .admissions_size(),
            0);
  item("replicas { name: 'busy' waiting { prompt_tokens: 2000 output_tokens: 50 } } removed_replicas: 'gone'");
  item("replicas { name: 'idle' } joined { replica: 'busy' request { prompt_tokens: 2000 } }");
  const auto streamed = item("candidates { id: 'r' prompt_tokens: 500 } candidates { id: 'bad' }");
  const auto whole = Ask(Text<v1::AdmitRequest>(std::string(kEngine) + kAdmit));
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(streamed.admissions_size(), 2);
  EXPECT_EQ(streamed.admissions(0).DebugString(), whole->admissions(0).DebugString());
  // A wrong candidate does not spoil the others.
  EXPECT_EQ(streamed.admissions(1).candidate(), "bad");
  EXPECT_EQ(streamed.admissions(1).status().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(streamed.admissions(1).status().message(), HasSubstr("candidates[1].prompt_tokens"));
}

TEST_F(ServingTest, AWrongChangeOfAStreamHoldsNothing) {
  AdmitSession session(limits_);
  const auto change = [&](const std::string& text) {
    const auto request = Text<v1::StreamAdmitRequest>(text);
    return With([&](const auto& context) { return session.Change(context, request); });
  };
  EXPECT_EQ(FieldOf(change("replicas { name: 'a' }")), "engines");
  ASSERT_EQ(change(std::string(kEngine) + "replicas { name: 'a' }"), absl::OkStatus());
  EXPECT_EQ(FieldOf(change("removed_replicas: 'a' replicas { name: 'b' engine: 7 }")), "replicas[0].engine");
  EXPECT_EQ(FieldOf(change("engines { model: 'models/none' }")), "engines[0].model");
  EXPECT_EQ(FieldOf(change("removed_replicas: 'b'")), "removed_replicas[0]");
  EXPECT_EQ(change("removed_replicas: 'a'"), absl::OkStatus());  // it was still there
}

TEST_F(ServingTest, AStreamHoldsNoMoreThanItMay) {
  limits_.replicas = 3;
  AdmitSession session(limits_);
  absl::Status status;
  for (int i = 0; i < 4; ++i) {
    const auto request =
        Text<v1::StreamAdmitRequest>(std::string(kEngine) + "replicas { name: 'r" + std::to_string(i) + "' }");
    status = With([&](const auto& context) { return session.Change(context, request); });
    EXPECT_EQ(status.ok(), i < 3) << i;
  }
  EXPECT_EQ(LimitOf(status), "replicas");
}

TEST_F(ServingTest, TooManyDecisionsOfAnItemAreRefusedAndItsChangesHold) {
  limits_.decisions = 2;
  AdmitSession session(limits_);
  const auto request = Text<v1::StreamAdmitRequest>(
      std::string(kEngine) + "replicas { name: 'a' } candidates { prompt_tokens: 5 } candidates { prompt_tokens: 5 }");
  v1::StreamAdmitResponse response;
  ASSERT_EQ(With([&](const auto& context) { return session.Change(context, request); }), absl::OkStatus());
  ASSERT_EQ(With([&](const auto& context) { return session.Judge(context, request, response); }), absl::OkStatus());
  ASSERT_EQ(response.admissions_size(), 2);
  EXPECT_EQ(response.admissions(0).status().code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  const auto one = Text<v1::StreamAdmitRequest>("candidates { prompt_tokens: 5 }");
  response.Clear();
  ASSERT_EQ(With([&](const auto& context) { return session.Judge(context, one, response); }), absl::OkStatus());
  EXPECT_EQ(response.admissions(0).recommended(), "a");
  const auto three = Text<v1::StreamAdmitRequest>("candidates {} candidates {} candidates {}");
  EXPECT_EQ(LimitOf(With([&](const auto& context) { return session.Change(context, three); })), "decisions");
}

constexpr char kMaxBatch[] = R"(
    engine { model: "models/small" device { slug: "h100-sxm" } token_budget: 2048 }
    contexts: 1024 contexts: 4096 limits { tpot { us: 5000 } ttft { us: 1e6 } }
    load { input_tokens: 512 output_tokens: 128 })";

TEST_F(ServingTest, TheLargestBatchMeetsTheLimitAndOneMoreDoesNot) {
  const auto response = Ask(Text<v1::MaxBatchRequest>(kMaxBatch));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->device(), "h100-sxm");
  EXPECT_FALSE(response->profile().id().empty());
  EXPECT_EQ(response->gpus(), 1);
  EXPECT_EQ(response->kv_bytes_per_token(), 4096);
  ASSERT_EQ(response->batches_size(), 2);
  for (const auto& batch : response->batches()) {
    EXPECT_GT(batch.sequences(), 0);
    EXPECT_LE(batch.step_us().p90(), 5000.0001);
  }
  EXPECT_GT(response->rate().requests_per_s(), 0);
  EXPECT_LE(response->rate().tpot_us(), 5000.0001);
  EXPECT_LT(response->table_error(), 0.05);
}

TEST_F(ServingTest, AWrongMaxBatchNamesItsField) {
  const auto field = [&](const std::string& text) { return FieldOf(Ask(Text<v1::MaxBatchRequest>(text)).status()); };
  const std::string engine = "engine { model: 'models/small' device { slug: 'h100-sxm' } } ";
  EXPECT_EQ(field(engine), "contexts");
  EXPECT_EQ(field(engine + "contexts: 0"), "contexts[0]");
  EXPECT_EQ(field(engine + "load { input_tokens: 5 }"), "load.output_tokens");
  EXPECT_EQ(field(engine + "contexts: 5 limits { tpot { us: nan } }"), "limits.tpot");
  EXPECT_EQ(field("contexts: 5"), "engine.model");
  EXPECT_EQ(field("engine { model: 'models/small' device { slug: 'h100-sxm' } memory_share: inf } contexts: 5"),
            "engine.memory_share");
}

TEST_F(ServingTest, FindsTheOverheadOfAnEngineInItsRecords) {
  const StepModel model = StepModel::Compile(testing::SmallLlama(), "small").value();
  const auto predictor = devices_->Find("h100-sxm", {}).value();
  auto request = Text<v1::FitEngineOverheadRequest>("model: 'models/small' device { slug: 'h100-sxm' }");
  for (int i = 1; i <= 30; ++i) {
    v1::StepRecord& record = *request.add_records();
    EngineStep step;
    for (int k = 0; k < i; ++k) {
      step.decode_context.push_back(100 * i);
      record.mutable_step()->add_decode_context(100 * i);
    }
    record.set_latency_us(model.Estimate(step, *predictor)->latency_us.p50 + 400 + 2 * i);
  }
  v1::FitEngineOverheadResponse response;
  const auto fit = [&] {
    response.Clear();
    return With([&](const auto& context) { return FitEngineOverhead(context, request, response); });
  };
  ASSERT_EQ(fit(), absl::OkStatus());
  EXPECT_NEAR(response.overhead().step_us(), 400, 0.1);
  EXPECT_NEAR(response.overhead().token_us(), 2, 0.01);
  EXPECT_LT(response.mape_after(), 1e-4);
  EXPECT_GT(response.mape_before(), 0.1);
  request.mutable_records(3)->set_latency_us(-1);
  EXPECT_THAT(MessageOf(fit()), HasSubstr("records[3]"));
  request.mutable_records(3)->mutable_step()->set_decode_context(0, 0);
  EXPECT_EQ(FieldOf(fit()), "records[3].step.decode_context[0]");
}

}  // namespace
}  // namespace gpueta
