#include "server/handlers/observations.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "gpueta/v1/observation.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/handlers/predict.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

using testing::HasSubstr;

class ObservationsTest : public testing::Test {
 protected:
  ObservationsTest() {
    devices_ = ServingSnapshot::Build(
                   {{.loaded = ParseProfile(testing_util::MakeTestProfileFile("h100-sxm")).value(), .version = 1}})
                   .value();
    store_ = OpenStore("sqlite::memory:").value();
    models_ = ModelRegistry::Open(*store_, limits_).value();
    feedback_ = Feedback::Open(
                    *store_, [this] { return now_; }, limits_)
                    .value();
  }

  v1::PredictResponse Predict(const std::string& text, const std::string& device = "h100-sxm") {
    v1::PredictRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
    request.add_devices()->set_slug(device);
    v1::PredictResponse response;
    PredictionCounts counts;
    const auto corrections = feedback_->Corrections();
    const std::function<bool()> cancelled = [] { return false; };
    const PredictFeedback feedback{feedback_->ids(), *corrections, feedback_->shapes(), shadows_.kernels(),
                                   static_cast<std::uint32_t>(feedback_->Now())};
    const absl::Status status = gpueta::Predict({*devices_, *models_->Table(), limits_, feedback, served_, cancelled},
                                                request, response, counts);
    EXPECT_TRUE(status.ok()) << status;
    return response;
  }
  v1::KernelPrediction PredictKernel(const std::string& device = "h100-sxm") {
    return Predict("kernel { dtype: DTYPE_BF16 gemm { m: 512 n: 4096 k: 1024 } }", device).devices(0).kernel();
  }

  // The outcome of one message.
  absl::StatusOr<v1::ReportObservationsResponse> Report(const v1::ReportObservationsRequest& request) {
    ObservationIntake intake(*feedback_, shadows_, limits_);
    GPUETA_RETURN_IF_ERROR(intake.Add(*devices_, *models_->Table(), request));
    v1::ReportObservationsResponse response;
    intake.Fill(response);
    return response;
  }
  v1::ReportObservationsResponse ReportOne(const v1::Observation& observation) {
    v1::ReportObservationsRequest request;
    *request.mutable_observations()->add_observations() = observation;
    const auto response = Report(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return *response;
  }
  static v1::Observation Of(const v1::KernelPrediction& prediction, double factor = 1) {
    v1::Observation observation;
    observation.set_prediction_id(prediction.prediction_id());
    observation.set_latency_us(factor * prediction.latency_us().p50());
    return observation;
  }
  void ExpectRefused(const v1::Observation& observation, v1::RefusalReason reason, const std::string& says) {
    const auto response = ReportOne(observation);
    EXPECT_EQ(response.accepted(), 0);
    ASSERT_EQ(response.refused_size(), 1);
    EXPECT_EQ(response.refused(0).reason(), reason) << response.DebugString();
    EXPECT_EQ(response.refused(0).count(), 1);
    EXPECT_THAT(response.refusals(0).message(), HasSubstr(says));
  }

  static constexpr char kColumns[] = "columns { dtype: DTYPE_BF16 gemm { m: 1 m: 20 m: 300 m: 4000 n: 4096 k: 1024 } }";
  static v1::ReportObservationsRequest Of(const v1::ColumnsPrediction& prediction, double factor) {
    v1::ReportObservationsRequest request;
    v1::ObservationColumns& columns = *request.mutable_columns();
    columns.set_prediction_id(prediction.prediction_id());
    for (int i = 0; i < prediction.p50_us_size(); ++i) columns.add_row(static_cast<std::uint32_t>(i));
    *columns.mutable_p50_us() = prediction.p50_us();
    *columns.mutable_p90_us() = prediction.p90_us();
    *columns.mutable_p99_us() = prediction.p99_us();
    for (const float us : prediction.p50_us()) columns.add_latency_us(static_cast<float>(factor) * us);
    return request;
  }

  std::vector<ErrorRow> Rows(ErrorQuery query = {}) { return feedback_->Summaries(query); }

  ServedModels served_{std::size_t{16} << 20};
  Limits limits_;
  std::chrono::system_clock::time_point now_{std::chrono::seconds(1'800'000'000)};
  std::shared_ptr<const ServingSnapshot> devices_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<Feedback> feedback_;
  std::vector<ProfileStep> steps_;
  ShadowRuns shadows_{ProfilePolicy::kAuto, [this](const ShadowRun&, ProfileStep step) { steps_.push_back(step); }};
};

TEST_F(ObservationsTest, AnIdCarriesWhatWasPredicted) {
  v1::Observation observation = Of(PredictKernel(), 1.25);
  observation.set_node("node-1");
  EXPECT_EQ(ReportOne(observation).accepted(), 1);
  const auto rows = Rows({.by_device = true,
                          .by_family = true,
                          .by_dtype = true,
                          .by_model = true,
                          .by_provenance = true,
                          .by_node = true});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].key.device, "h100-sxm");
  EXPECT_EQ(rows[0].key.family, "gemm");
  EXPECT_EQ(rows[0].key.dtype, "bf16");
  EXPECT_EQ(rows[0].key.node, "node-1");
  EXPECT_NEAR(rows[0].errors.bias, -0.2, 0.006);
  EXPECT_EQ(rows[0].errors.below_p50, 0);
}

TEST_F(ObservationsTest, EveryKindOfAnswerHasAnIdUnderWhichItIsObserved) {
  v1::ReportObservationsRequest request;
  const auto add = [&](const std::string& id, double us) {
    v1::Observation& observation = *request.mutable_observations()->add_observations();
    observation.set_prediction_id(id);
    observation.set_latency_us(us);
  };
  const auto batch = Predict(R"(kernels { kernels { dtype: DTYPE_BF16 gemm { m: 5 n: 6 k: 7 } }
                                          kernels { dtype: DTYPE_BF16 vector { op: "add" rows: 5 cols: 6 operands: 2 } } })");
  for (const auto& kernel : batch.devices(0).kernels().kernels())
    add(kernel.prediction_id(), kernel.latency_us().p50());
  const auto graph =
      Predict(R"(graph { graph { nodes { kernel { name: "a" dtype: DTYPE_BF16 gemm { m: 5 n: 6 k: 7 } } } } })");
  add(graph.devices(0).graph().prediction_id(), graph.devices(0).graph().latency_us().p50());
  const auto response = Report(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->accepted(), 3) << response->DebugString();
  std::map<std::string, std::int64_t> by_family;
  for (const ErrorRow& row : Rows({.by_family = true, .only = {}})) by_family[row.key.family] = row.errors.n;
  EXPECT_EQ(by_family, (std::map<std::string, std::int64_t>{{"gemm", 1}, {"vector", 1}, {"graph", 1}}));
}

TEST_F(ObservationsTest, AModelIsNamedByItsAliasElseByItsHash) {
  const auto registered = [this](std::int64_t m, const std::string& alias) {
    Graph graph;
    graph.nodes.push_back({.kernel = {.name = "a", .dtype = DType::kBf16, .work = Gemm{.m = m, .n = 6, .k = 7}}});
    return models_->Register(graph, alias).value()->hash;
  };
  std::set<std::string> names;
  std::vector<std::string> hashes = {registered(5, "bert")};
  for (std::int64_t m = 6; m < 20; ++m) hashes.push_back(registered(m, ""));
  for (const std::string& hash : hashes) {
    const auto answer = Predict("model { model: \"models/" + hash + "\" }").devices(0).graph();
    v1::Observation observation;
    observation.set_prediction_id(answer.prediction_id());
    observation.set_latency_us(answer.latency_us().p50());
    EXPECT_EQ(ReportOne(observation).accepted(), 1);
    names.insert(hash == hashes[0] ? "bert" : hash.substr(0, 16));
  }
  std::set<std::string> observed;
  for (const ErrorRow& row : Rows({.by_model = true, .only = {}})) observed.insert(row.key.model);
  EXPECT_EQ(observed, names);
}

TEST_F(ObservationsTest, BadOnesAreRefusedOneByOneWithTheirReason) {
  const v1::KernelPrediction prediction = PredictKernel();
  v1::Observation forged = Of(prediction);
  (*forged.mutable_prediction_id())[20] ^= 1;
  ExpectRefused(forged, v1::REFUSAL_REASON_FORGED, "not made by this server");
  ExpectRefused(Of(prediction, 101), v1::REFUSAL_REASON_ABSURD, "hundred times");
  ExpectRefused(Of(prediction, 0.009), v1::REFUSAL_REASON_ABSURD, "hundred times");
  for (const double us : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    v1::Observation bad = Of(prediction);
    bad.set_latency_us(us);
    ExpectRefused(bad, v1::REFUSAL_REASON_INVALID, "positive");
  }
  v1::Observation bad_node = Of(prediction);
  bad_node.set_node("a node");
  ExpectRefused(bad_node, v1::REFUSAL_REASON_INVALID, "node");
  v1::Observation empty;
  empty.set_latency_us(1);
  ExpectRefused(empty, v1::REFUSAL_REASON_INVALID, "prediction_id");
  EXPECT_EQ(ReportOne(Of(prediction)).accepted(), 1);
  ExpectRefused(Of(prediction), v1::REFUSAL_REASON_DUPLICATE, "before");
  const v1::KernelPrediction old = PredictKernel();
  now_ += std::chrono::hours(25);
  ExpectRefused(Of(old), v1::REFUSAL_REASON_LATE, "day");
  v1::Observation unknown;
  unknown.set_latency_us(1);
  unknown.mutable_work()->mutable_device()->set_slug("no-such-device");
  ExpectRefused(unknown, v1::REFUSAL_REASON_UNKNOWN, "no-such-device");
  EXPECT_EQ(Rows({.only = {}})[0].errors.n, 1);
  const auto outcomes = feedback_->Sample().outcomes;
  EXPECT_EQ(outcomes.at("accepted"), 1);
  EXPECT_EQ(outcomes.at("absurd"), 2);
  EXPECT_EQ(outcomes.at("invalid"), 6);
}

TEST_F(ObservationsTest, ATimingThatIsNotThePredictionsIsRefused) {
  const auto response =
      Predict("options { timing: TIMING_KERNEL } kernel { dtype: DTYPE_BF16 gemm { m: 512 n: 4096 k: 1024 } }");
  v1::Observation observation = Of(response.devices(0).kernel());
  observation.set_timing(v1::TIMING_EAGER);
  ExpectRefused(observation, v1::REFUSAL_REASON_INVALID, "timing");
  observation.set_timing(v1::TIMING_KERNEL);
  EXPECT_EQ(ReportOne(observation).accepted(), 1);
}

TEST_F(ObservationsTest, CircumstancesThatCannotBeAreRefused) {
  const v1::Observation good = Of(PredictKernel());
  v1::Observation observation = good;
  observation.set_concurrency(-1);
  ExpectRefused(observation, v1::REFUSAL_REASON_INVALID, "concurrency");
  observation = good;
  observation.set_clock_mhz(std::nan(""));
  ExpectRefused(observation, v1::REFUSAL_REASON_INVALID, "clock_mhz");
  observation = good;
  observation.set_timing(static_cast<v1::Timing>(99));
  ExpectRefused(observation, v1::REFUSAL_REASON_INVALID, "timing");
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(work { device { slug: "h100-sxm" } kernel { dtype: DTYPE_BF16 gemm { m: 5 n: 6 k: 7 } } timing: TIMING_KERNEL }
         latency_us: 5 timing: TIMING_GRAPH)",
      &observation));
  ExpectRefused(observation, v1::REFUSAL_REASON_INVALID, "differs from work.timing");
}

TEST_F(ObservationsTest, WorkItselfIsJudgedByWhatAnswersNow) {
  v1::Observation observation;
  observation.set_latency_us(2 * PredictKernel().latency_us().p50());
  v1::ObservedWork& work = *observation.mutable_work();
  work.mutable_device()->set_slug("h100-sxm");
  work.set_model("bert");
  work.mutable_kernel()->set_dtype(v1::DTYPE_BF16);
  work.mutable_kernel()->mutable_gemm()->set_m(512);
  work.mutable_kernel()->mutable_gemm()->set_n(4096);
  work.mutable_kernel()->mutable_gemm()->set_k(1024);
  EXPECT_EQ(ReportOne(observation).accepted(), 1);
  EXPECT_EQ(ReportOne(observation).accepted(), 1);  // nothing says it is the same one
  const auto rows = Rows({.by_model = true, .only = {}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].key.model, "bert");
  EXPECT_NEAR(rows[0].errors.bias, -0.5, 0.02);
}

TEST_F(ObservationsTest, ColumnsAreObservedRowByRow) {
  const auto columns = Predict(kColumns).devices(0).columns();
  ASSERT_EQ(columns.p50_us_size(), 4);
  EXPECT_EQ(Report(Of(columns, 1.1))->accepted(), 4);
  EXPECT_EQ(Report(Of(columns, 1.1))->accepted(), 0);  // duplicates
  v1::ReportObservationsRequest mixed = Of(Predict(kColumns).devices(0).columns(), 1);
  mixed.mutable_columns()->set_row(0, 4);          // no such row
  mixed.mutable_columns()->set_latency_us(1, -1);  // invalid
  mixed.mutable_columns()->set_p90_us(2, 0);       // not what was said
  const auto response = Report(mixed);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->accepted(), 1);
  EXPECT_EQ(response->refused_size(), 2);
  EXPECT_EQ(response->refusals_size(), 3);
  EXPECT_EQ(response->refusals(1).index(), 1);
  v1::ReportObservationsRequest unequal = Of(Predict(kColumns).devices(0).columns(), 1);
  unequal.mutable_columns()->add_latency_us(1);
  EXPECT_THAT(Report(unequal).status().message(), HasSubstr("columns.row: has 4 values"));
  EXPECT_THAT(Report({}).status().message(), HasSubstr("part"));
}

TEST_F(ObservationsTest, ColumnsOfWorkNeedNoId) {
  v1::ReportObservationsRequest request;
  v1::ObservationColumns& columns = *request.mutable_columns();
  v1::PredictRequest asked;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kColumns, &asked));
  columns.mutable_work()->mutable_device()->set_slug("h100-sxm");
  *columns.mutable_work()->mutable_columns() = asked.columns();
  const v1::PredictResponse predicted = Predict(kColumns);
  for (const float us : predicted.devices(0).columns().p50_us()) columns.add_latency_us(us);
  const auto taken = Report(request);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->accepted(), 4) << taken->DebugString() << request.DebugString();
  EXPECT_LT(Rows()[0].errors.mape, 1e-3);
  columns.add_latency_us(1);
  EXPECT_THAT(Report(request).status().message(), HasSubstr("has 4 rows, latency_us has 5"));
}

TEST_F(ObservationsTest, WhatIsObservedCorrectsTheAnswersUnlessTheCallSaysNot) {
  const v1::KernelPrediction before = PredictKernel();
  EXPECT_EQ(before.correction(), 1);
  for (int i = 0; i < 150; ++i) {
    // The observed latency is 1.3 times the prediction without correction.
    const v1::KernelPrediction now = PredictKernel();
    EXPECT_EQ(ReportOne(Of(now, 1.3 / now.correction())).accepted(), 1);
  }
  const v1::KernelPrediction after = PredictKernel();
  EXPECT_NEAR(after.correction(), 1.3, 0.03);
  EXPECT_NEAR(after.latency_us().p50(), 1.3 * before.latency_us().p50(), 0.03 * before.latency_us().p50());
  const auto without =
      Predict("options { no_correction: true } kernel { dtype: DTYPE_BF16 gemm { m: 512 n: 4096 k: 1024 } }");
  EXPECT_EQ(without.devices(0).kernel().latency_us().p50(), before.latency_us().p50());
  const auto columns = Predict(kColumns).devices(0).columns();
  EXPECT_NEAR(columns.correction(), 1.3, 0.03);
  // Observed as predicted: the factor learnt is confirmed, not learnt twice.
  for (int i = 0; i < 50; ++i) Report(Of(Predict(kColumns).devices(0).columns(), 1)).IgnoreError();
  EXPECT_NEAR(PredictKernel().correction(), 1.3, 0.03);
}

TEST_F(ObservationsTest, ObservationsUnderOtherLoadCountButTeachNothing) {
  for (int i = 0; i < 150; ++i) {
    v1::Observation observation = Of(PredictKernel(), 1.5);
    observation.set_concurrency(2);
    EXPECT_EQ(ReportOne(observation).accepted(), 1);
  }
  EXPECT_EQ(PredictKernel().correction(), 1);
  EXPECT_EQ(Rows()[0].errors.n, 150);
}

TEST_F(ObservationsTest, ADeviceThatTheCallerDescribesIsOther) {
  v1::PredictRequest request;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(devices { slug: "h100-sxm" spec { sm_count: 10 mem_bandwidth_gb_s: 100 fp32_tflops: 1 } }
         kernel { dtype: DTYPE_FP32 gemm { m: 512 n: 4096 k: 1024 } })",
      &request));
  v1::PredictResponse response;
  PredictionCounts counts;
  const CorrectionTable none;
  const std::function<bool()> cancelled = [] { return false; };
  ASSERT_TRUE(gpueta::Predict({*devices_,
                               *models_->Table(),
                               limits_,
                               {feedback_->ids(), none, feedback_->shapes(), shadows_.kernels(), 1'800'000'000},
                               served_,
                               cancelled},
                              request, response, counts)
                  .ok());
  EXPECT_EQ(ReportOne(Of(response.devices(0).kernel())).accepted(), 1);
  EXPECT_EQ(Rows({.by_device = true, .only = {}})[0].key.device, "other");
}

TEST_F(ObservationsTest, SummariesSayWhatWasAskedFor) {
  for (int i = 0; i < 30; ++i) ReportOne(Of(PredictKernel(), 1.1));
  v1::GetErrorSummaryRequest request;
  request.add_by(v1::ERROR_DIMENSION_DEVICE);
  request.add_by(v1::ERROR_DIMENSION_OP);
  v1::GetErrorSummaryResponse response;
  ASSERT_TRUE(GetErrorSummary(*feedback_, request, response).ok());
  ASSERT_EQ(response.summaries_size(), 1);
  const v1::ObservedErrors& errors = response.summaries(0);
  EXPECT_EQ(errors.device(), "h100-sxm");
  EXPECT_EQ(errors.op(), "gemm");
  EXPECT_EQ(errors.dtype(), "");
  EXPECT_EQ(errors.n(), 30);
  EXPECT_NEAR(errors.mape(), 1 - 1 / 1.1, 0.01);
  EXPECT_EQ(errors.drift(), v1::DRIFT_STATE_LEARNING);
  request.set_device("t4");
  response.Clear();
  ASSERT_TRUE(GetErrorSummary(*feedback_, request, response).ok());
  EXPECT_EQ(response.summaries_size(), 0);
  request.set_since_unix_s(feedback_->Now() + 10);
  EXPECT_THAT(GetErrorSummary(*feedback_, request, response).message(), HasSubstr("future"));
}

TEST_F(ObservationsTest, ATaskNamesTheShapesThatAreAskedForMost) {
  for (int i = 0; i < 3 * static_cast<int>(AskedShapes::kOneIn); ++i) PredictKernel();
  v1::CalibrationTask message;
  Encode(CalibrationTask{.id = 255, .device = "h100-sxm", .family = Family::kGemm, .ln_ratio = 0.3},
         feedback_->shapes(), message);
  EXPECT_EQ(message.name(), "devices/h100-sxm/calibrationTasks/00000000000000ff");
  EXPECT_EQ(message.op(), "gemm");
  EXPECT_EQ(message.reason(), v1::CalibrationTask::REASON_DRIFT);
  ASSERT_EQ(message.shapes_size(), 1);
  EXPECT_EQ(message.shapes(0).kernel().gemm().n(), 4096);
  EXPECT_NEAR(message.shapes(0).weight(), 1, 1e-9);
}

TEST_F(ObservationsTest, AProfileInTheShadowIsComparedOnWhatIsObserved) {
  const std::uint64_t active = ProfileNumber(devices_->Find("h100-sxm", {}).value()->profile()->id);
  Profile slower = testing_util::MakeTestProfile("h100-sxm");
  for (Table& table : slower.tables) {
    for (Variant& variant : table.variants) variant.theta[0] *= 1.2F;
  }
  const auto shadow =
      ServingSnapshot::Build({{.loaded = ParseProfile(SerializeProfile(slower)).value(), .version = 1}});
  const auto start = [&] {
    shadows_.Start("h100-sxm", {.name = {}, .predictor = (*shadow)->Find("h100-sxm", {}).value(), .against = active});
  };
  const Kernel kernel{.dtype = DType::kBf16, .work = Gemm{.m = 512, .n = 4096, .k = 1024}};
  const double by_active = devices_->Find("h100-sxm", {}).value()->EstimateKernel(kernel)->latency_us.p50;
  const double by_shadow = (*shadow)->Find("h100-sxm", {}).value()->EstimateKernel(kernel)->latency_us.p50;
  ASSERT_GT(std::abs(std::log(by_active / by_shadow)), 0.005);
  const auto observe = [&](double us, int count) {
    for (int i = 0; i < count; ++i) {
      v1::Observation observation;
      observation.set_prediction_id(PredictKernel().prediction_id());
      observation.set_latency_us(us * (1 + 1e-4 * (i % 3)));
      EXPECT_EQ(ReportOne(observation).accepted(), 1);
    }
  };
  observe(by_shadow, 10);  // nobody compares
  start();
  observe(by_shadow, 199);
  EXPECT_EQ(shadows_.Losses().at("h100-sxm").count, 199);
  EXPECT_TRUE(steps_.empty());
  observe(by_shadow, 1);
  EXPECT_EQ(steps_, std::vector{ProfileStep::kPromote});
  EXPECT_TRUE(shadows_.Losses().empty());
  start();
  observe(by_active, 200);
  EXPECT_EQ(steps_.back(), ProfileStep::kDiscard);
  start();
  shadows_.ActiveIs("h100-sxm", active);
  EXPECT_EQ(shadows_.Losses().size(), 1U);
  shadows_.ActiveIs("h100-sxm", active + 1);  // somebody activated another one
  EXPECT_TRUE(shadows_.Losses().empty());
}

}  // namespace
}  // namespace gpueta
