// The server in process, over real sockets: what concerns calls rather than
// answers. tests/integration runs the binary.
#include "server/server.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "core/base/errors.h"
#include "core/serving/testing_models.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gpueta/v1/observation.grpc.pb.h"
#include "gpueta/v1/prediction_service.grpc.pb.h"
#include "gpueta/v1/profile_service.grpc.pb.h"
#include "server/rpc/listen.h"
#include "server/testing/test_client.h"
#include "server/testing/test_profile.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;
using testing_util::GemmColumnsRequest;
using testing_util::MakeTestProfile;
using testing_util::MakeTestProfileFile;
using testing_util::PatientContext;
using testing_util::TestClient;

class ServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetUpLogging(LogFormat::kText, LogLevel::kError);
    SetUpGrpc();
  }

  ServerTest() {
    options_.listen = "127.0.0.1:0";
    options_.metrics_listen = "off";
    options_.profiles = "off";
  }

  // Starts on first use, so that a test can set options_ before.
  Server& server() {
    if (server_ == nullptr) {
      auto started = Server::Start(options_, [] { return std::chrono::system_clock::now(); });
      EXPECT_TRUE(started.ok()) << started.status();
      server_ = *std::move(started);
    }
    return *server_;
  }
  TestClient Client() { return TestClient(server().address()); }

  ServerOptions options_;
  std::unique_ptr<Server> server_;
};

auto Predictions(const TestClient& client) { return v1::PredictionService::NewStub(client.channel()); }
auto Profiles(const TestClient& client) { return v1::ProfileService::NewStub(client.channel()); }

v1::StreamPredictRequest Item(std::uint64_t id, v1::PredictRequest request) {
  v1::StreamPredictRequest item;
  item.set_id(id);
  *item.mutable_request() = std::move(request);
  return item;
}

// A server with a model of an LLM, and what Admit asks of it.
constexpr char kEngine[] = R"(engines { model: "models/small" device { slug: "h100-sxm" } token_budget: 1024 } )";

template <class Message>
Message Text(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

void RegisterSmall(TestClient& client) {
  v1::RegisterModelRequest request;
  request.set_config(gpueta::testing::SmallLlama());
  request.set_alias("small");
  const auto model = client.Register(request);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->has_config());
}

TEST_F(ServerTest, StreamAdmitAnswersEveryItemInOrderWithItsOwnStatus) {
  TestClient client = Client();
  RegisterSmall(client);
  const auto context = PatientContext();
  const auto stream = Predictions(client)->StreamAdmit(context.get());
  const std::pair<std::string, int> items[] = {
      {"replicas { name: 'a' }", 3},  // no engines yet
      {std::string(kEngine) + "replicas { name: 'a' metrics { running: 40 kv_usage: 0.5 } }", 0},
      {"candidates { prompt_tokens: 100 } candidates {}", 0},
      {"removed_replicas: 'x'", 5},
      {"replicas { name: 'b' } candidates { prompt_tokens: 100 }", 0},
  };
  std::vector<v1::StreamAdmitResponse> answers;
  for (std::size_t i = 0; i < std::size(items); ++i) {
    auto item = Text<v1::StreamAdmitRequest>(items[i].first);
    item.set_id(10 + i);
    ASSERT_TRUE(stream->Write(item));
    ASSERT_TRUE(stream->Read(&answers.emplace_back()));
    EXPECT_EQ(answers[i].id(), 10 + i);
    EXPECT_EQ(answers[i].status().code(), items[i].second) << answers[i].DebugString();
  }
  EXPECT_EQ(answers[2].admissions(0).recommended(), "a");
  EXPECT_EQ(answers[2].admissions(1).status().code(), 3);
  google::rpc::BadRequest details;
  ASSERT_TRUE(answers[2].admissions(1).status().details(0).UnpackTo(&details));
  EXPECT_EQ(details.field_violations(0).field(), "candidates[1].prompt_tokens");
  EXPECT_EQ(answers[4].admissions(0).replicas_size(), 2);
  stream->WritesDone();
  v1::StreamAdmitResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ServerTest, AdmitAnswersTheSameWhileProfilesChange) {
  TestClient client = Client();
  RegisterSmall(client);
  const auto request =
      Text<v1::AdmitRequest>(std::string(kEngine) + "replicas { name: 'a' } candidates { prompt_tokens: 500 }");
  std::atomic<bool> stop = false;
  std::atomic<int> answered = 0;
  std::vector<std::jthread> askers;
  for (int i = 0; i < 3; ++i) {
    askers.emplace_back([&] {
      const auto stub = Predictions(client);
      while (!stop) {
        v1::AdmitResponse response;
        const auto context = PatientContext();
        const grpc::Status status = stub->Admit(context.get(), request, &response);
        EXPECT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(response.admissions_size(), 1);
        ++answered;
      }
    });
  }
  double last = 0;
  for (int variation = 0; variation < 4; ++variation) {
    ASSERT_TRUE(client.Publish("devices/h100-sxm", MakeTestProfileFile("h100-sxm", variation), true).ok());
    v1::AdmitResponse response;
    const auto context = PatientContext();
    ASSERT_TRUE(Predictions(client)->Admit(context.get(), request, &response).ok());
    const double ttft_us = response.admissions(0).replicas(0).ttft_us();
    EXPECT_NE(ttft_us, last);  // of the new profile's tables
    last = ttft_us;
  }
  stop = true;
  askers.clear();
  EXPECT_GT(answered, 0);
}

TEST_F(ServerTest, StreamsOfAdmissionsAreLimited) {
  options_.limits.streams = 1;
  TestClient client = Client();
  const auto stub = Predictions(client);
  const auto first_context = PatientContext();
  const auto first = stub->StreamAdmit(first_context.get());
  v1::StreamAdmitResponse answer;
  ASSERT_TRUE(first->Write({}));
  ASSERT_TRUE(first->Read(&answer));
  const auto second_context = PatientContext();
  const auto second = stub->StreamAdmit(second_context.get());
  EXPECT_FALSE(second->Read(&answer));
  EXPECT_EQ(second->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  first->WritesDone();
  EXPECT_FALSE(first->Read(&answer));
  EXPECT_TRUE(first->Finish().ok());
}

TEST_F(ServerTest, StreamAnswersEveryItemInOrderWithItsOwnStatus) {
  TestClient client = Client();
  std::vector<v1::StreamPredictRequest> items;
  for (std::uint64_t id = 0; id < 60; ++id) {
    switch (id % 3) {
      case 0: items.push_back(Item(id, GemmColumnsRequest("t4", 1 + 100 * static_cast<std::uint32_t>(id)))); break;
      case 1: items.push_back(Item(id, GemmColumnsRequest("no-such-card", 5))); break;
      default: {
        v1::PredictRequest request = GemmColumnsRequest("t4", 1);
        request.mutable_kernel()->set_dtype(v1::DTYPE_FP32);
        request.mutable_kernel()->mutable_vector()->set_op("add");
        request.mutable_kernel()->mutable_vector()->set_rows(10);
        request.mutable_kernel()->mutable_vector()->set_cols(static_cast<std::int64_t>(id));
        items.push_back(Item(id, request));
      }
    }
  }
  std::vector<v1::StreamPredictResponse> answers;
  ASSERT_EQ(client.Stream(items, answers), absl::OkStatus());
  ASSERT_EQ(answers.size(), items.size());
  for (std::uint64_t id = 0; id < answers.size(); ++id) {
    const v1::StreamPredictResponse& answer = answers[id];
    EXPECT_EQ(answer.id(), id);
    if (id % 3 == 1) {
      EXPECT_FALSE(answer.has_response());
      EXPECT_EQ(answer.status().code(), grpc::StatusCode::NOT_FOUND);
      EXPECT_EQ(answer.status().details_size(), 1);
    } else {
      EXPECT_FALSE(answer.has_status());
    }
    if (id % 3 == 0) {
      EXPECT_EQ(answer.response().devices(0).columns().p50_us_size(), static_cast<int>(1 + 100 * id));
    } else if (id % 3 == 2) {
      EXPECT_GT(answer.response().devices(0).kernel().latency_us().p50(), 0);
    }
  }
}

TEST_F(ServerTest, AStreamWithoutItemsEndsWell) {
  std::vector<v1::StreamPredictResponse> answers;
  EXPECT_EQ(Client().Stream({}, answers), absl::OkStatus());
  EXPECT_TRUE(answers.empty());
}

TEST_F(ServerTest, AClientThatDoesNotReadIsNotReadFrom) {
  // Far more than the transport buffers: the writer stands still until the
  // answers are read.
  constexpr std::uint64_t kItems = 300;
  TestClient client = Client();
  const auto context = PatientContext();
  const auto stream = Predictions(client)->StreamPredict(context.get());
  const v1::PredictRequest request = GemmColumnsRequest("t4", 5000);
  std::atomic<std::uint64_t> written{0};
  std::thread writer([&] {
    for (std::uint64_t id = 0; id < kItems && stream->Write(Item(id, request)); ++id) ++written;
    stream->WritesDone();
  });
  v1::StreamPredictResponse answer;
  for (std::uint64_t id = 0; id < kItems; ++id) {
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.id(), id);
  }
  EXPECT_FALSE(stream->Read(&answer));
  writer.join();
  EXPECT_EQ(written, kItems);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ServerTest, CancelledStreamsMakeRoomForOthers) {
  options_.limits.streams = 1;
  TestClient client = Client();
  for (int round = 0; round < 5; ++round) {
    // Until the server has seen the end of the stream before this one.
    for (;;) {
      const auto context = PatientContext();
      const auto stream = Predictions(client)->StreamPredict(context.get());
      v1::StreamPredictResponse answer;
      const bool answered = stream->Write(Item(1, GemmColumnsRequest("t4", 1000))) && stream->Read(&answer);
      stream->Write(Item(2, GemmColumnsRequest("t4", 1000)));
      context->TryCancel();
      const grpc::Status status = stream->Finish();
      if (answered) {
        EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
        break;
      }
      ASSERT_THAT(status.error_code(),
                  ::testing::AnyOf(grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::CANCELLED));
    }
  }
}

TEST_F(ServerTest, RefusesMoreStreamsThanItsLimit) {
  options_.limits.streams = 1;
  TestClient client = Client();
  const auto first_context = PatientContext();
  const auto first = Predictions(client)->StreamPredict(first_context.get());
  ASSERT_TRUE(first->Write(Item(1, GemmColumnsRequest("t4", 1))));
  v1::StreamPredictResponse answer;
  ASSERT_TRUE(first->Read(&answer));
  std::vector<v1::StreamPredictResponse> answers;
  const absl::Status refused = client.Stream({}, answers);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused), HasSubstr("streams"));
  first->WritesDone();
  EXPECT_TRUE(first->Finish().ok());
}

TEST_F(ServerTest, ErrorsCarryDetailsThatNameTheField) {
  TestClient client = Client();
  v1::PredictRequest request = GemmColumnsRequest("t4", 1);
  request.mutable_columns()->clear_dtype();
  const auto context = PatientContext();
  v1::PredictResponse response;
  const grpc::Status status = Predictions(client)->Predict(context.get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(details.details(0).UnpackTo(&bad_request));
  EXPECT_EQ(bad_request.field_violations(0).field(), "columns.dtype");
}

TEST_F(ServerTest, RefusesMessagesAboveItsLimit) {
  options_.limits.message_bytes = 100'000;
  const auto response = Client().Predict(GemmColumnsRequest("t4", 50'000));
  EXPECT_EQ(response.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(response.status()), HasSubstr("100000"));
}

TEST_F(ServerTest, SendsTheRequestIdBack) {
  TestClient client = Client();
  v1::PredictResponse response;
  const auto context = PatientContext();
  context->AddMetadata("x-request-id", "mine");
  ASSERT_TRUE(Predictions(client)->Predict(context.get(), GemmColumnsRequest("t4", 1), &response).ok());
  const auto& metadata = context->GetServerInitialMetadata();
  ASSERT_EQ(metadata.count("x-request-id"), 1U);
  EXPECT_EQ(metadata.find("x-request-id")->second, "mine");
}

TEST_F(ServerTest, WatchersSeeWhatIsActiveAndEveryChange) {
  TestClient client = Client();
  const std::string first = client.Publish("devices/t4", MakeTestProfileFile("t4", 1), true)->id();
  const auto context = PatientContext();
  v1::WatchProfilesRequest request;
  request.set_parent("devices/-");
  const auto watch = Profiles(client)->WatchProfiles(context.get(), request);
  v1::ProfileEvent event;
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.type(), v1::ProfileEvent::TYPE_ACTIVE);
  EXPECT_EQ(event.profile().id(), first);
  const auto second = client.Publish("devices/t4", MakeTestProfileFile("t4", 2), false);
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.type(), v1::ProfileEvent::TYPE_PUBLISHED);
  client.Activate(second->name()).value();
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.type(), v1::ProfileEvent::TYPE_ACTIVATED);
  EXPECT_EQ(event.profile().version(), 2);
  client.Rollback("devices/t4").value();
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.type(), v1::ProfileEvent::TYPE_ROLLED_BACK);
  EXPECT_EQ(event.profile().id(), first);
  context->TryCancel();
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ServerTest, EndsAWatcherThatReadsTooSlowly) {
  options_.limits.pending_events = 2;
  TestClient client = Client();
  // Events of 500 kB: a few fill the transport's buffers.
  Profile profile = MakeTestProfile("t4", 1);
  profile.labels["padding"] = std::string(500'000, 'x');
  const std::string name = client.Publish("devices/t4", SerializeProfile(profile), true)->name();
  const auto context = PatientContext();
  v1::WatchProfilesRequest request;
  request.set_parent("devices/t4");
  const auto watch = Profiles(client)->WatchProfiles(context.get(), request);
  v1::ProfileEvent event;
  ASSERT_TRUE(watch->Read(&event));
  profile.tables[0].floor_us += 1;
  client.Publish("devices/t4", SerializeProfile(profile), true).value();
  for (int i = 0; i < 40; ++i) {
    client.Rollback("devices/t4").value();
    client.Publish("devices/t4", SerializeProfile(profile), true).value();
  }
  while (watch->Read(&event)) {
  }
  const grpc::Status status = watch->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("pending_events"));
}

TEST_F(ServerTest, RefusesAWatchOfSomethingElse) {
  TestClient client = Client();
  const auto context = PatientContext();
  v1::WatchProfilesRequest request;
  request.set_parent("h100");
  const auto watch = Profiles(client)->WatchProfiles(context.get(), request);
  v1::ProfileEvent event;
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, AnswersStayConsistentWhileProfilesAreReplaced) {
  TestClient publisher = Client();
  publisher.Publish("devices/t4", MakeTestProfileFile("t4", 0), true).value();
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::map<std::int64_t, double> p50_of_version;
  constexpr int kReaders = 3;
  std::vector<std::thread> readers;
  readers.reserve(kReaders);
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&] {
      TestClient client(server().address());
      std::int64_t last = 0;
      do {
        const auto answer = client.Ask("t4");
        ASSERT_TRUE(answer.ok()) << answer.status();
        ASSERT_GE(answer->version, last);
        last = answer->version;
        const std::lock_guard lock(mutex);
        const auto [it, first] = p50_of_version.emplace(answer->version, answer->p50);
        ASSERT_EQ(it->second, answer->p50) << "version " << answer->version << " answered twice, differently";
      } while (!done);
    });
  }
  for (int variation = 1; variation <= 20; ++variation) {
    ASSERT_TRUE(publisher.Publish("devices/t4", MakeTestProfileFile("t4", variation), true).ok());
  }
  done = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(publisher.Ask("t4")->version, 21);
}

TEST_F(ServerTest, HealthFollowsTheServer) {
  TestClient client = Client();
  for (const char* service : {"", "gpueta.v1.PredictionService", "gpueta.v1.ProfileService"}) {
    EXPECT_EQ(client.Health(service), "SERVING") << service;
  }
  EXPECT_THAT(client.Health("gpueta.v1.NoSuchService"), HasSubstr("NOT_FOUND"));
  server().StopServing();
  for (const char* service : {"", "gpueta.v1.PredictionService", "gpueta.v1.ProfileService"}) {
    EXPECT_EQ(client.Health(service), "NOT_SERVING") << service;
  }
  EXPECT_TRUE(client.Ask("t4").ok());  // still
}

TEST_F(ServerTest, ShutdownLetsARunningStreamFinishAndEndsWatches) {
  TestClient client = Client();
  const auto stream_context = PatientContext();
  const auto stream = Predictions(client)->StreamPredict(stream_context.get());
  v1::StreamPredictResponse answer;
  ASSERT_TRUE(stream->Write(Item(1, GemmColumnsRequest("t4", 10))));
  ASSERT_TRUE(stream->Read(&answer));
  client.Publish("devices/t4", MakeTestProfileFile("t4", 1), true).value();
  const auto watch_context = PatientContext();
  v1::WatchProfilesRequest request;
  request.set_parent("devices/-");
  const auto watch = Profiles(client)->WatchProfiles(watch_context.get(), request);
  v1::ProfileEvent event;
  ASSERT_TRUE(watch->Read(&event));

  std::thread stopper([&] { server().Shutdown(testing_util::kPatience); });
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  // The stream goes on until the client is done with it.
  for (std::uint64_t id = 2; id < 5; ++id) {
    ASSERT_TRUE(stream->Write(Item(id, GemmColumnsRequest("t4", 10))));
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.id(), id);
  }
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
  stopper.join();
}

TEST_F(ServerTest, ShutdownCancelsWhatDoesNotFinish) {
  TestClient client = Client();
  const auto context = PatientContext();
  const auto stream = Predictions(client)->StreamPredict(context.get());
  v1::StreamPredictResponse answer;
  ASSERT_TRUE(stream->Write(Item(1, GemmColumnsRequest("t4", 10))));
  ASSERT_TRUE(stream->Read(&answer));
  server().Shutdown(std::chrono::seconds(0));
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_FALSE(stream->Finish().ok());
}

TEST_F(ServerTest, NamesTheAddressThatIsTaken) {
  ServerOptions second = options_;
  second.listen = server().address();
  const auto refused = Server::Start(second, [] { return std::chrono::system_clock::now(); });
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(refused.status()), AllOf(HasSubstr(second.listen), HasSubstr("--listen")));
}

// Reports one observation for each of `count` predictions of a kernel, observed
// at `factor` times the prediction without correction.
v1::ReportObservationsResponse PredictAndReport(TestClient& client, const std::string& slug, double factor, int count) {
  v1::PredictRequest request;
  request.add_devices()->set_slug(slug);
  request.mutable_kernel()->set_dtype(v1::DTYPE_FP32);
  request.mutable_kernel()->mutable_gemm()->set_m(512);
  request.mutable_kernel()->mutable_gemm()->set_n(512);
  request.mutable_kernel()->mutable_gemm()->set_k(512);
  v1::ReportObservationsRequest report;
  for (int i = 0; i < count; ++i) {
    const auto answer = client.Predict(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    const v1::KernelPrediction& kernel = answer->devices(0).kernel();
    v1::Observation& observation = *report.mutable_observations()->add_observations();
    observation.set_prediction_id(kernel.prediction_id());
    observation.set_latency_us(factor * kernel.latency_us().p50() / kernel.correction());
  }
  const auto context = PatientContext();
  v1::ReportObservationsResponse response;
  const auto stub = v1::ObservationService::NewStub(client.channel());
  const auto writer = stub->ReportObservations(context.get(), &response);
  EXPECT_TRUE(writer->Write(report));
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

TEST_F(ServerTest, ObservationsAreTakenJudgedAndSummarised) {
  TestClient client = Client();
  EXPECT_EQ(PredictAndReport(client, "t4", 1.2, 10).accepted(), 10);
  EXPECT_EQ(PredictAndReport(client, "t4", 1000, 2).accepted(), 0);
  const auto stub = v1::ObservationService::NewStub(client.channel());
  v1::GetErrorSummaryRequest request;
  request.add_by(v1::ERROR_DIMENSION_DEVICE);
  v1::GetErrorSummaryResponse summary;
  ASSERT_TRUE(stub->GetErrorSummary(PatientContext().get(), request, &summary).ok());
  ASSERT_EQ(summary.summaries_size(), 1);
  EXPECT_EQ(summary.summaries(0).device(), "t4");
  EXPECT_EQ(summary.summaries(0).n(), 10);
  EXPECT_NEAR(summary.summaries(0).bias(), 1 / 1.2 - 1, 0.01);

  const auto context = PatientContext();
  v1::ReportObservationsResponse response;
  const auto writer = stub->ReportObservations(context.get(), &response);
  writer->Write(v1::ReportObservationsRequest());
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, DriftMakesATaskWhichANewProfileEnds) {
  TestClient client = Client();
  ASSERT_TRUE(client.Publish("devices/t4", MakeTestProfileFile("t4"), true).ok());
  const auto profiles = Profiles(client);
  const auto context = PatientContext();
  v1::WatchCalibrationTasksRequest request;
  request.set_parent("devices/t4");
  const auto watch = profiles->WatchCalibrationTasks(context.get(), request);
  PredictAndReport(client, "t4", 1, 100);
  PredictAndReport(client, "t4", 1.5, 100);
  v1::CalibrationTask task;
  ASSERT_TRUE(watch->Read(&task));
  EXPECT_THAT(task.name(), HasSubstr("devices/t4/calibrationTasks/"));
  EXPECT_EQ(task.device(), "t4");
  EXPECT_EQ(task.op(), "gemm");
  EXPECT_EQ(task.reason(), v1::CalibrationTask::REASON_DRIFT);
  EXPECT_GT(task.shapes_size(), 0);
  context->TryCancel();

  v1::PredictRequest asked;
  asked.add_devices()->set_slug("t4");
  *asked.mutable_kernel() = task.shapes(0).kernel();
  EXPECT_GT(client.Predict(asked)->devices(0).kernel().correction(), 1.2);

  ASSERT_TRUE(client.Publish("devices/t4", MakeTestProfileFile("t4", 5), true).ok());
  EXPECT_EQ(client.Predict(asked)->devices(0).kernel().correction(), 1);
  // Published profiles and the end of tasks pass through one queue.
  ASSERT_TRUE(client.List("devices/t4").ok());
  const auto again = PatientContext();
  request.set_parent("devices/-");
  const auto second = profiles->WatchCalibrationTasks(again.get(), request);
  PredictAndReport(client, "t4", 1, 100);
  PredictAndReport(client, "t4", 0.6, 100);
  ASSERT_TRUE(second->Read(&task));  // the new one: the old one is done
  EXPECT_LT(task.ln_ratio(), -0.3);
  again->TryCancel();
}

TEST_F(ServerTest, AProfileInTheShadowAnswersOnceItIsBetterByObservations) {
  TestClient client = Client();
  ASSERT_TRUE(client.Publish("devices/t4", MakeTestProfileFile("t4"), true).ok());
  const std::string before = client.Ask("t4")->profile_id;
  const auto profiles = Profiles(client);
  const auto context = PatientContext();
  v1::ProfileInfo info;
  const auto writer = profiles->PublishProfile(context.get(), &info);
  v1::PublishProfileRequest part;
  part.mutable_header()->set_parent("devices/t4");
  part.mutable_header()->set_shadow(true);
  writer->Write(part);
  Profile slower = MakeTestProfile("t4");
  for (Table& table : slower.tables) {
    for (Variant& variant : table.variants) variant.theta[0] *= 1.2F;
  }
  part.set_chunk(SerializeProfile(slower));
  writer->Write(part);
  writer->WritesDone();
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_FALSE(info.active());
  EXPECT_EQ(client.Ask("t4")->profile_id, before);

  const auto watch_context = PatientContext();
  v1::WatchProfilesRequest request;
  request.set_parent("devices/t4");
  const auto watch = profiles->WatchProfiles(watch_context.get(), request);
  v1::ProfileEvent event;
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.profile().id(), before);
  PredictAndReport(client, "t4", 1.2, 250);
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.type(), v1::ProfileEvent::TYPE_ACTIVATED);
  EXPECT_EQ(event.profile().id(), info.id());
  watch_context->TryCancel();
  EXPECT_EQ(client.Ask("t4")->profile_id, info.id());
}

}  // namespace
}  // namespace gpueta
