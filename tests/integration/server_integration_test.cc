// The server as people run it: the binary, over sockets on free loopback ports.

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/errors.h"
#include "core/predict/snapshot.h"
#include "core/wire/prediction_codec.h"
#include "gpueta/v1/prediction_service.grpc.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/testing/test_client.h"
#include "server/testing/test_profile.h"
#include "tests/integration/server_process.h"

namespace gpueta {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_util::GemmColumnsRequest;
using testing_util::HttpGet;
using testing_util::kPatience;
using testing_util::MakeTestProfile;
using testing_util::MakeTestProfileFile;
using testing_util::Outcome;
using testing_util::PatientContext;
using testing_util::RunProgram;
using testing_util::ServerProcess;
using testing_util::TemporaryDirectory;
using testing_util::TestClient;

class ServerIntegrationTest : public testing::Test {
 protected:
  std::string Store() const { return "sqlite:" + directory_.path() + "/store.db"; }

  // Free ports, and a store that stays between starts.
  std::vector<std::string> Arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"--listen", "127.0.0.1:0", "--metrics-listen", "off",
                                          "--store",  Store(),       "--drain-seconds",  "0"};
    if (std::find(more.begin(), more.end(), "--profiles") == more.end()) more.insert(more.end(), {"--profiles", "off"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static std::unique_ptr<ServerProcess> Start(const std::vector<std::string>& arguments,
                                              const std::function<void()>& in_child = nullptr) {
    auto started = ServerProcess::Start(GPUETA_SERVER_BINARY, arguments, in_child);
    EXPECT_TRUE(started.ok()) << started.status();
    return started.ok() ? *std::move(started) : nullptr;
  }
  static Outcome RunServer(const std::vector<std::string>& arguments) {
    return RunProgram(GPUETA_SERVER_BINARY, arguments);
  }

  TemporaryDirectory directory_;
};

// A predictor of the same profile in this process.
std::shared_ptr<const Predictor> LocalPredictor(const std::string& slug, const std::string& file) {
  return Snapshot::Build({{.loaded = ParseProfile(file).value(), .node = "", .version = 1}})
      .value()
      ->Find(slug)
      .value();
}

TEST_F(ServerIntegrationTest, PublishesActivatesPredictsAndRollsBackAcrossARestart) {
  std::string first, second;
  {
    const auto server = Start(Arguments());
    TestClient client(server->address());
    EXPECT_EQ(client.Ask("h100-sxm")->profile_id, "");  // by the data sheet
    const auto published = client.Publish("devices/h100-sxm", MakeTestProfileFile("h100-sxm", 1), false);
    ASSERT_TRUE(published.ok()) << published.status();
    first = published->id();
    EXPECT_EQ(client.Ask("h100-sxm")->profile_id, "");
    EXPECT_EQ(client.Activate(published->name())->version(), 1);
    EXPECT_EQ(client.Ask("h100-sxm")->profile_id, first);
    second = client.Publish("devices/h100-sxm", MakeTestProfileFile("h100-sxm", 2), true)->id();
    EXPECT_EQ(client.Ask("h100-sxm")->profile_id, second);
    server->Signal(SIGTERM);
    EXPECT_EQ(server->Wait(kPatience).value(), 0);
  }
  const auto server = Start(Arguments());
  TestClient client(server->address());
  EXPECT_EQ(client.Ask("h100-sxm")->profile_id, second);
  EXPECT_EQ(client.Ask("h100-sxm")->version, 2);
  EXPECT_EQ(client.Rollback("devices/h100-sxm")->id(), first);
  EXPECT_EQ(client.Ask("h100-sxm")->version, 3);
  EXPECT_EQ(client.Rollback("devices/h100-sxm").status().code(), absl::StatusCode::kFailedPrecondition);
  // The same content again is the same profile.
  const auto again = client.Publish("devices/h100-sxm", MakeTestProfileFile("h100-sxm", 1), true);
  EXPECT_EQ(again->id(), first);
  EXPECT_EQ(again->version(), 3);
  EXPECT_EQ(client.List("devices/-")->size(), 2U);
}

TEST_F(ServerIntegrationTest, StreamsAnswerAsThePredictorInProcessToTheBit) {
  constexpr std::uint32_t kRows = 100'000;
  constexpr std::uint32_t kBatch = 5'000;
  const std::string file = MakeTestProfileFile("h100-sxm");
  const auto server = Start(Arguments());
  TestClient client(server->address());
  ASSERT_TRUE(client.Publish("devices/h100-sxm", file, true).ok());
  std::vector<v1::StreamPredictRequest> items;
  for (std::uint32_t start = 0; start < kRows; start += kBatch) {
    v1::StreamPredictRequest& item = items.emplace_back();
    item.set_id(start);
    *item.mutable_request() = GemmColumnsRequest("h100-sxm", kBatch, start + 1);
  }
  // The same shapes once more as rows, 50 of each batch.
  constexpr int kRowsOfBatch = 50;
  for (std::size_t b = 0; b < kRows / kBatch; ++b) {
    v1::StreamPredictRequest item;
    item.set_id(kRows + b);
    item.mutable_request()->add_devices()->set_slug("h100-sxm");
    const v1::GemmColumns& gemm = items[b].request().columns().gemm();
    for (int row = 0; row < kRowsOfBatch; ++row) {
      v1::Kernel& kernel = *item.mutable_request()->mutable_kernels()->add_kernels();
      kernel.set_dtype(v1::DTYPE_BF16);
      kernel.mutable_gemm()->set_m(gemm.m(row));
      kernel.mutable_gemm()->set_n(gemm.n(row));
      kernel.mutable_gemm()->set_k(gemm.k(row));
    }
    items.push_back(std::move(item));
  }
  std::vector<v1::StreamPredictResponse> answers;
  ASSERT_EQ(client.Stream(items, answers), absl::OkStatus());
  ASSERT_EQ(answers.size(), items.size());

  const auto predictor = LocalPredictor("h100-sxm", file);
  std::int64_t compared = 0;
  for (std::size_t i = 0; i < kRows / kBatch; ++i) {
    ASSERT_EQ(answers[i].id(), items[i].id());
    const KernelColumns columns = wire::Decode(items[i].request().columns()).value();
    std::vector<float> p50(kBatch), p90(kBatch), p99(kBatch);
    ColumnsResult expected{.p50_us = p50, .p90_us = p90, .p99_us = p99};
    ASSERT_EQ(predictor->EstimateColumns(columns, {}, expected), absl::OkStatus());
    const v1::ColumnsPrediction& got = answers[i].response().devices(0).columns();
    ASSERT_EQ(got.p50_us_size(), static_cast<int>(kBatch));
    const auto& rows = answers[kRows / kBatch + i].response().devices(0).kernels().kernels();
    ASSERT_EQ(rows.size(), kRowsOfBatch);
    for (int row = 0; row < static_cast<int>(kBatch); ++row) {
      const auto r = static_cast<std::size_t>(row);
      ASSERT_EQ(got.p50_us(row), p50[r]);
      ASSERT_EQ(got.p90_us(row), p90[r]);
      ASSERT_EQ(got.p99_us(row), p99[r]);
      if (row < kRowsOfBatch) {
        ASSERT_EQ(static_cast<float>(rows[row].latency_us().p50()), p50[r]);
        ASSERT_EQ(static_cast<float>(rows[row].latency_us().p99()), p99[r]);
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, kRows);
}

TEST_F(ServerIntegrationTest, BadInputGivesTheRightCodeAndChangesNothing) {
  const auto server = Start(Arguments({"--limit", "message_bytes=1000000"}));
  TestClient client(server->address());
  const std::string good = MakeTestProfileFile("t4", 1);
  const std::string active = client.Publish("devices/t4", good, true)->id();

  using enum absl::StatusCode;
  const std::string cut = good.substr(0, good.size() / 2);
  v1::ProfileFile newer;
  ASSERT_TRUE(newer.ParseFromString(good));
  newer.set_schema_version(kProfileSchemaVersion + 1);
  v1::ProfileFile damaged;
  ASSERT_TRUE(damaged.ParseFromString(good));
  (*damaged.mutable_payload())[damaged.payload().size() / 2] ^= 1;
  Profile nan = MakeTestProfile("t4", 2);
  nan.tables[0].variants[0].theta[1] = std::numeric_limits<float>::quiet_NaN();
  Profile copy = MakeTestProfile("t4", 1);
  copy.device = "l40s";
  copy.spec = Catalogue::BuiltIn().Get("l40s").value();
  struct BadProfile {
    const char* what;
    std::string parent;
    std::string file;
    absl::StatusCode code;
    const char* word;
  };
  for (const BadProfile& bad : std::vector<BadProfile>{
           {"cut in half", "devices/t4", cut, kInvalidArgument, "cut short"},
           {"newer version", "devices/t4", newer.SerializeAsString(), kFailedPrecondition, "upgrade"},
           {"a flipped bit", "devices/t4", damaged.SerializeAsString(), kInvalidArgument, "checksum"},
           {"another device", "devices/l40s", MakeTestProfileFile("t4", 3), kInvalidArgument, "header.parent"},
           {"NaN parameter", "devices/t4", SerializeProfile(nan), kInvalidArgument, "theta"},
           {"another device's numbers", "devices/l40s", SerializeProfile(copy), kFailedPrecondition, "t4"},
           {"no profile", "devices/t4", "hello", kInvalidArgument, "not a profile"}}) {
    const absl::Status status = client.Publish(bad.parent, bad.file, true).status();
    EXPECT_EQ(status.code(), bad.code) << bad.what << ": " << status;
    EXPECT_THAT(MessageOf(status), HasSubstr(bad.word)) << bad.what;
  }

  struct BadRequest {
    const char* what;
    std::string text;
    absl::StatusCode code;
    const char* word;
  };
  const std::string node = "kernel { dtype: DTYPE_FP32 gemm { m: 1 n: 8 k: 8 } }";
  for (const BadRequest& bad : std::vector<BadRequest>{
           {"unknown device", "devices { slug: 'h101' } " + node, kNotFound, "h101"},
           {"negative dim", "devices { slug: 't4' } kernel { dtype: DTYPE_FP32 gemm { m: -5 n: 8 k: 8 } }",
            kInvalidArgument, "gemm.m"},
           {"overflowing dims",
            "devices { slug: 't4' } kernel { dtype: DTYPE_FP32 gemm { m: 4611686018427387904 n: 8 k: 8 } }",
            kInvalidArgument, "2^62"},
           {"unbound symbol",
            "devices { slug: 't4' } graph { graph { symbols { name: 'batch' } nodes { " + node +
                " symbolic_dims { key: 'm' value: '8*batch' } } } }",
            kFailedPrecondition, "batch"},
           {"a cycle",
            "devices { slug: 't4' } graph { graph { nodes { " + node + " inputs: 1 } nodes { " + node +
                " inputs: 0 } } }",
            kInvalidArgument, "nodes[0]"},
           {"unknown model", "devices { slug: 't4' } model { model: 'models/none' }", kNotFound, "models/none"}}) {
    v1::PredictRequest request;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(bad.text, &request)) << bad.text;
    const absl::Status status = client.Predict(request).status();
    EXPECT_EQ(status.code(), bad.code) << bad.what << ": " << status;
    EXPECT_THAT(MessageOf(status), HasSubstr(bad.word)) << bad.what;
  }
  const absl::Status oversized = client.Predict(GemmColumnsRequest("t4", 200'000)).status();
  EXPECT_EQ(oversized.code(), kResourceExhausted) << oversized;
  v1::RegisterModelRequest random;
  random.set_onnx(std::string(1000, '\x5a'));
  EXPECT_EQ(client.Register(random).status().code(), kInvalidArgument);

  EXPECT_EQ(client.Ask("t4")->profile_id, active);
  EXPECT_EQ(client.List("devices/-")->size(), 1U);
}

TEST_F(ServerIntegrationTest, APortInUseIsOneClearLine) {
  const auto server = Start({"--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"});
  const Outcome grpc_taken =
      RunServer({"--listen", server->address(), "--metrics-listen", "off", "--log-level", "error"});
  EXPECT_EQ(grpc_taken.status, 1);
  EXPECT_EQ(grpc_taken.standard_output, "");
  EXPECT_THAT(grpc_taken.standard_error, AllOf(HasSubstr(server->address()), HasSubstr("--listen")));
  EXPECT_EQ(std::count(grpc_taken.standard_error.begin(), grpc_taken.standard_error.end(), '\n'), 1);
  const Outcome metrics_taken =
      RunServer({"--listen", "127.0.0.1:0", "--metrics-listen", server->metrics_address(), "--log-level", "error"});
  EXPECT_EQ(metrics_taken.status, 1);
  EXPECT_THAT(metrics_taken.standard_error, AllOf(HasSubstr(server->metrics_address()), HasSubstr("--metrics-listen")));
  EXPECT_EQ(std::count(metrics_taken.standard_error.begin(), metrics_taken.standard_error.end(), '\n'), 1);
}

TEST_F(ServerIntegrationTest, WrongOptionsExitWithUsage) {
  const std::string config = directory_.path() + "/config";
  std::ofstream(config) << "listen_on: \"x\"\n";
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{"--no-such-flag"},
                                                                                         {"--limit", "devices"},
                                                                                         {"--limit", "widgets=3"},
                                                                                         {"--limit", "devices=0"},
                                                                                         {"--log-level", "loud"},
                                                                                         {"--drain-seconds", "-1"},
                                                                                         {"--config", config},
                                                                                         {"--config", "/nowhere"}}) {
    const Outcome outcome = RunServer(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments.back();
    EXPECT_EQ(std::count(outcome.standard_error.begin(), outcome.standard_error.end(), '\n'), 1)
        << outcome.standard_error;
  }
  const Outcome help = RunServer({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.standard_output, AllOf(HasSubstr("--listen"), HasSubstr("column_rows")));
  EXPECT_EQ(RunServer({"--version"}).standard_output, "gpueta-server " GPUETA_VERSION "\n");
}

TEST_F(ServerIntegrationTest, FlagsWinOverTheConfigurationFile) {
  const std::string config = directory_.path() + "/config";
  std::ofstream(config) << "listen: \"127.0.0.1:1\"\nmetrics_listen: \"off\"\nlimits { devices: 1 }\n";
  const auto server = Start({"--config", config, "--listen", "127.0.0.1:0"});
  TestClient client(server->address());
  v1::PredictRequest request = GemmColumnsRequest("t4", 1);
  request.add_devices()->set_slug("l40s");
  EXPECT_EQ(client.Predict(request).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ServerIntegrationTest, StoresThatCannotBeOpenedAreOneClearLine) {
  const std::string garbage = directory_.path() + "/garbage.db";
  std::ofstream(garbage) << std::string(10'000, 'g');
  for (const auto& [store, word] :
       std::vector<std::pair<std::string, std::string>>{{"sqlite:/proc/self/store.db", "write access"},
                                                        {"sqlite:/no/such/directory/store.db", "write access"},
                                                        {"sqlite:" + garbage, "restore"},
                                                        {"etcd:localhost:2379", "not in this build"},
                                                        {"redis:x", "sqlite:PATH"}}) {
    const Outcome outcome = RunServer({"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--store", store});
    EXPECT_EQ(outcome.status, 1) << store;
    EXPECT_THAT(outcome.standard_error, HasSubstr(word)) << store;
    EXPECT_EQ(std::count(outcome.standard_error.begin(), outcome.standard_error.end(), '\n'), 1)
        << outcome.standard_error;
  }
}

// Runs the child as an unprivileged user if we are root, whom file permissions
// do not stop.
// Root may write whatever the mode says; the program to come may not.
void RespectFileModes() {
  if (getuid() == 0 && prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0) _exit(126);
}

TEST_F(ServerIntegrationTest, AReadOnlyStoreIsRefusedAndStaysAsItWas) {
  std::string id;
  {
    const auto server = Start(Arguments());
    id = TestClient(server->address()).Publish("devices/t4", MakeTestProfileFile("t4", 1), true)->id();
    server->Signal(SIGTERM);
    EXPECT_EQ(server->Wait(kPatience).value(), 0);
  }
  chmod((directory_.path() + "/store.db").c_str(), 0444);
  chmod(directory_.path().c_str(), 0555);
  const Outcome refused = RunProgram(GPUETA_SERVER_BINARY, Arguments(), RespectFileModes);
  chmod(directory_.path().c_str(), 0755);
  chmod((directory_.path() + "/store.db").c_str(), 0644);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.standard_error, AllOf(HasSubstr("store.db"), HasSubstr("write access")));
  const auto server = Start(Arguments());
  EXPECT_EQ(TestClient(server->address()).Ask("t4")->profile_id, id);
}

TEST_F(ServerIntegrationTest, AFullDiskFailsThePublishAndNothingElse) {
  // To the server's files as if the disk were full from 400 kB on.
  const auto server = Start(Arguments(), [] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{400'000, 400'000};
    setrlimit(RLIMIT_FSIZE, &limit);
  });
  TestClient client(server->address());
  const std::string active = client.Publish("devices/t4", MakeTestProfileFile("t4", 1), true)->id();
  Profile large = MakeTestProfile("t4", 2);
  large.labels["padding"] = std::string(1'000'000, 'x');
  const absl::Status status = client.Publish("devices/t4", SerializeProfile(large), true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("store.db"), HasSubstr("disk is full")));
  EXPECT_EQ(client.Ask("t4")->profile_id, active);
  EXPECT_EQ(client.List("devices/-")->size(), 1U);
  EXPECT_EQ(client.Publish("devices/t4", MakeTestProfileFile("t4", 3), true)->version(), 2);  // still works
}

TEST_F(ServerIntegrationTest, FilesAreServedAndABadOneIsLeftOut) {
  const std::string profiles = directory_.path() + "/profiles";
  std::filesystem::create_directories(profiles);
  const std::string good = MakeTestProfileFile("t4", 1);
  std::ofstream(profiles + "/t4.profile", std::ios::binary) << good;
  std::ofstream(profiles + "/bad.profile", std::ios::binary) << good.substr(0, 1000);
  std::ofstream(profiles + "/notes.txt") << "not a profile";
  const auto server = Start(Arguments({"--profiles", profiles}));
  TestClient client(server->address());
  EXPECT_EQ(client.Ask("t4")->profile_id, ParseProfile(good)->id);
  EXPECT_EQ(client.Ask("t4")->version, 0);
  EXPECT_EQ(client.List("devices/-")->size(), 1U);
  const std::string published = client.Publish("devices/t4", MakeTestProfileFile("t4", 2), true)->id();
  EXPECT_EQ(client.Ask("t4")->profile_id, published);
  EXPECT_EQ(RunServer({"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--profiles", "/no/such"}).status, 1);
}

TEST_F(ServerIntegrationTest, ShutsDownWithoutCuttingARunningStream) {
  const auto server = Start(Arguments({"--finish-seconds", "60"}));
  TestClient client(server->address());
  const auto context = PatientContext();
  const auto stream = v1::PredictionService::NewStub(client.channel())->StreamPredict(context.get());
  v1::StreamPredictRequest item;
  *item.mutable_request() = GemmColumnsRequest("t4", 1000);
  v1::StreamPredictResponse answer;
  ASSERT_TRUE(stream->Write(item));
  ASSERT_TRUE(stream->Read(&answer));
  server->Signal(SIGTERM);
  // Until new calls are no longer accepted, and beyond.
  TestClient late(server->address());
  std::uint64_t id = 0;
  for (bool accepted = true; accepted; accepted = late.Ask("t4").ok()) {
    item.set_id(++id);
    ASSERT_TRUE(stream->Write(item));
    ASSERT_TRUE(stream->Read(&answer));
    ASSERT_EQ(answer.id(), id);
  }
  item.set_id(++id);
  ASSERT_TRUE(stream->Write(item));
  ASSERT_TRUE(stream->Read(&answer));
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(server->Wait(kPatience).value(), 0);
}

TEST_F(ServerIntegrationTest, HealthSaysNotServingWhileItDrains) {
  const auto server = Start({"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--drain-seconds", "3600"});
  TestClient client(server->address());
  EXPECT_EQ(client.Health(""), "SERVING");
  EXPECT_EQ(client.Health("gpueta.v1.PredictionService"), "SERVING");
  server->Signal(SIGTERM);
  while (client.Health("gpueta.v1.PredictionService") == "SERVING") {
  }
  EXPECT_EQ(client.Health(""), "NOT_SERVING");
  EXPECT_TRUE(client.Ask("t4").ok());
  server->Signal(SIGTERM);  // a second one cuts the drain short
  EXPECT_EQ(server->Wait(kPatience).value(), 0);
}

// One message to a streaming method and its answer, as bytes.
std::string AskInBytes(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                       const std::string& message) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto context = PatientContext();
  const auto call = stub.PrepareCall(context.get(), method, &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  if (!wait()) return "";
  const grpc::Slice slice(message);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  if (!wait()) return "";
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  if (!wait()) return "";
  call->WritesDone(nullptr);
  wait();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  std::vector<grpc::Slice> slices;
  answer.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& s : slices) bytes.append(reinterpret_cast<const char*>(s.begin()), s.size());
  return bytes;
}

TEST_F(ServerIntegrationTest, ReflectionListsTheServices) {
  const auto server = Start(Arguments());
  TestClient client(server->address());
  // ServerReflectionRequest{list_services: ""}; its message is not among
  // Debian's headers.
  const std::string answer = AskInBytes(
      client.channel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", std::string("\x3a\x00", 2));
  for (const char* service : {"gpueta.v1.PredictionService", "gpueta.v1.ProfileService", "grpc.health.v1.Health"}) {
    EXPECT_THAT(answer, HasSubstr(service));
  }
}

TEST_F(ServerIntegrationTest, MetricsCountWhatHappened) {
  const auto server = Start({"--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--drain-seconds", "0"});
  TestClient client(server->address());
  ASSERT_TRUE(client.Publish("devices/t4", MakeTestProfileFile("t4", 1), true).ok());
  ASSERT_TRUE(client.Ask("t4").ok());
  EXPECT_FALSE(client.Ask("no-such-card").ok());
  v1::StreamPredictRequest item;
  *item.mutable_request() = GemmColumnsRequest("t4", 1000);
  std::vector<v1::StreamPredictResponse> answers;
  ASSERT_EQ(client.Stream({item, item}, answers), absl::OkStatus());
  // Calls are counted when their last traces are gone, shortly after the client
  // has its answer.
  const std::string handled =
      R"(grpc_server_handled_total{grpc_code="OK",grpc_method="StreamPredict",grpc_service="gpueta.v1.PredictionService",grpc_type="bidi_stream"} 1)";
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::string text;
  do {
    text = HttpGet(server->metrics_address(), "/metrics");
  } while (text.find(handled) == std::string::npos && std::chrono::steady_clock::now() < deadline);
  for (
      const char* expected :
      {handled.c_str(),
       R"(grpc_server_started_total{grpc_method="Predict",grpc_service="gpueta.v1.PredictionService",grpc_type="unary"} 2)",
       R"(grpc_server_handled_total{grpc_code="NotFound",grpc_method="Predict",grpc_service="gpueta.v1.PredictionService",grpc_type="unary"} 1)",
       R"(grpc_server_handling_seconds_count{grpc_method="PublishProfile",grpc_service="gpueta.v1.ProfileService",grpc_type="client_stream"} 1)",
       R"(gpueta_profile_info{device="t4",id=")", R"(gpueta_profile_age_seconds{device="t4"})",
       "gpueta_snapshot_swaps_total 1", "gpueta_models 0",
       "gpueta_build_info{version=", "process_start_time_seconds"}) {
    EXPECT_THAT(text, HasSubstr(expected));
  }
  // 1 + 2·1000 GEMMs, whatever they rest on.
  double gemms = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("gpueta_predictions_total{op=\"gemm\"")) gemms += std::stod(line.substr(line.rfind(' ')));
  }
  EXPECT_EQ(gemms, 2001);
  // The community's own linter, where it is installed.
  if (access("/usr/bin/promtool", X_OK) == 0) {
    const std::string scrape = directory_.path() + "/metrics.txt";
    std::ofstream(scrape) << text;
    const Outcome lint = RunProgram("/bin/sh", {"-c", "/usr/bin/promtool check metrics < " + scrape});
    EXPECT_EQ(lint.status, 0) << lint.standard_output << lint.standard_error;
  }
}

}  // namespace
}  // namespace gpueta
