// How fast predictions go over the wire, against a server that does not
// predict: starts gpueta-server and gpueta-echo, sends both the same million
// kernels in columns, by turns, and prints rates and their ratio.
//
// The client sends bytes it has prepared and keeps the answers as bytes until
// the clock has stopped: it takes as little as possible of the processor that
// it shares with the servers. Every answer is then compared with the predictor
// in this process.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/predict/snapshot.h"
#include "core/wire/prediction_codec.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/testing/test_client.h"
#include "server/testing/test_profile.h"
#include "tests/integration/server_process.h"

namespace gpueta {
namespace {

using testing_util::GemmColumnsRequest;
using testing_util::ServerProcess;
using testing_util::TestClient;

// A float's rounding, and room for a path that orders operations differently.
constexpr double kTolerance = 2e-6;

struct Options {
  std::string server, echo, profile;
  int rows = 1'000'000;
  std::vector<int> batches = {1'000, 10'000};
  int rounds = 5;
  int calls = 2'000;
  int replicas = 500;
  std::vector<int> running = {0, 16};
  int admits = 50;
};

constexpr char kStreamMethod[] = "/gpueta.v1.PredictionService/StreamPredict";
constexpr char kPredictMethod[] = "/gpueta.v1.PredictionService/Predict";
constexpr char kAdmitMethod[] = "/gpueta.v1.PredictionService/Admit";

grpc::ByteBuffer BytesOf(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

template <class Message>
bool Parse(const grpc::ByteBuffer& bytes, Message& message) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return false;
  std::string joined;
  for (const grpc::Slice& slice : slices) joined.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return message.ParseFromString(joined);
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Sends all items down one stream as fast as they are taken, reading answers
// meanwhile. Returns the seconds from the first write to the last answer.
absl::StatusOr<double> RunStream(const std::shared_ptr<grpc::Channel>& channel,
                                 const std::vector<grpc::ByteBuffer>& items, std::vector<grpc::ByteBuffer>& answers) {
  enum Tag : std::uint8_t { kStart, kRead, kWrite, kFinish };
  static Tag tags[] = {kStart, kRead, kWrite, kFinish};
  const auto tag = [](Tag t) -> void* { return &tags[t]; };
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const auto call = stub.PrepareCall(&context, kStreamMethod, &queue);
  answers.assign(items.size(), {});
  std::size_t written = 0, read = 0;
  const auto start = std::chrono::steady_clock::now();
  call->StartCall(tag(kStart));
  void* got = nullptr;
  bool ok = false;
  double seconds = 0;
  grpc::Status status;
  bool finishing = false;
  while (queue.Next(&got, &ok)) {
    const Tag what = *static_cast<Tag*>(got);
    if (what == kFinish) break;
    if (!ok && !finishing) {
      finishing = true;
      call->Finish(&status, tag(kFinish));
      continue;
    }
    if (what == kStart) {
      call->Read(&answers[read], tag(kRead));
      call->Write(items[written], tag(kWrite));
    } else if (what == kWrite) {
      ++written;
      if (written < items.size()) {
        call->Write(items[written], tag(kWrite));
      } else if (written == items.size()) {
        call->WritesDone(tag(kWrite));
      }
    } else {
      ++read;
      if (read < items.size()) {
        call->Read(&answers[read], tag(kRead));
      } else {
        seconds = SecondsSince(start);
        finishing = true;
        call->Finish(&status, tag(kFinish));
      }
    }
  }
  if (!status.ok()) return Unavailable("the stream failed: {}", status.error_message());
  return seconds;
}

// Seconds a call, one after the other; the median of `calls`.
absl::StatusOr<double> RunUnary(const std::shared_ptr<grpc::Channel>& channel, const char* method,
                                const grpc::ByteBuffer& request, int calls, grpc::ByteBuffer& answer) {
  grpc::GenericStub stub(channel);
  std::vector<double> seconds;
  for (int i = 0; i < calls; ++i) {
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    grpc::Status status;
    const auto start = std::chrono::steady_clock::now();
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!status.ok()) return Unavailable("a call failed: {}", status.error_message());
    seconds.push_back(SecondsSince(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + calls / 2, seconds.end());
  return seconds[static_cast<std::size_t>(calls / 2)];
}

struct Agreement {
  std::int64_t rows = 0;
  std::int64_t equal = 0;  // to the bit
  double worst = 0;        // relative difference
};

void Compare(std::span<const float> expected, const google::protobuf::RepeatedField<float>& got, Agreement& agreement) {
  for (std::size_t row = 0; row < expected.size(); ++row) {
    const float value = got[static_cast<int>(row)];
    if (value == expected[row]) ++agreement.equal;
    agreement.worst = std::max(agreement.worst, std::abs(static_cast<double>(value) / expected[row] - 1));
  }
}

absl::Status CheckAnswers(const Predictor& predictor, const std::vector<v1::StreamPredictRequest>& items,
                          const std::vector<grpc::ByteBuffer>& answers, Agreement& agreement) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    v1::StreamPredictResponse answer;
    if (!Parse(answers[i], answer) || answer.id() != items[i].id() || answer.has_status()) {
      return Internal("item {}: a wrong answer: {}", i, answer.status().message());
    }
    GPUETA_ASSIGN_OR_RETURN(const KernelColumns columns, wire::Decode(items[i].request().columns()));
    std::vector<float> p50(columns.rows), p90(columns.rows), p99(columns.rows);
    ColumnsResult expected{.p50_us = p50, .p90_us = p90, .p99_us = p99};
    GPUETA_RETURN_IF_ERROR(predictor.EstimateColumns(columns, {}, expected));
    const v1::ColumnsPrediction& got = answer.response().devices(0).columns();
    if (got.p50_us_size() != static_cast<int>(columns.rows))
      return Internal("item {}: {} rows, expected {}", i, got.p50_us_size(), columns.rows);
    agreement.rows += static_cast<std::int64_t>(columns.rows);
    Compare(p50, got.p50_us(), agreement);
    Compare(p90, got.p90_us(), agreement);
    Compare(p99, got.p99_us(), agreement);
  }
  return absl::OkStatus();
}

// The profile to measure with: the one given, or one made by hand that has a
// residual of the usual size.
absl::StatusOr<std::string> ProfileBytes(const std::string& path) {
  if (!path.empty()) {
    GPUETA_ASSIGN_OR_RETURN(const LoadedProfile loaded, LoadProfile(path));
    return SerializeProfile(loaded.profile);
  }
  Profile profile = testing_util::MakeTestProfile("h100-sxm");
  testing_util::AddTestResiduals(profile);
  return SerializeProfile(profile);
}

struct Summary {
  double low, middle, high;
};
Summary Summarise(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

// Rates of both, round by round, and the processor time each took for one unit
// (which a busy machine disturbs less than rates).
struct Pair {
  std::vector<double> rates[2];
  double cpu_seconds[2] = {};
  double units[2] = {};
};

// One turn: runs `work`, which returns its rate, against server `who`.
template <class Work>
absl::Status Measure(const ServerProcess& server, int who, double units, bool warm, Pair& pair, Work work) {
  const double before = server.CpuSeconds();
  GPUETA_ASSIGN_OR_RETURN(const double rate, work());
  if (!warm) return absl::OkStatus();
  pair.rates[who].push_back(rate);
  pair.cpu_seconds[who] += server.CpuSeconds() - before;
  pair.units[who] += units;
  return absl::OkStatus();
}

void PrintPair(const std::string& what, const Pair& pair, const char* unit) {
  const auto& [gpueta, echo] = pair.rates;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < gpueta.size(); ++i) ratios.push_back(gpueta[i] / echo[i]);
  const Summary g = Summarise(gpueta), e = Summarise(echo), r = Summarise(ratios);
  std::printf("%s\n", what.c_str());
  std::printf("  gpueta-server  %12.4g %s (min %.4g, max %.4g)\n", g.middle, unit, g.low, g.high);
  std::printf("  gpueta-echo    %12.4g %s (min %.4g, max %.4g)\n", e.middle, unit, e.low, e.high);
  std::printf("  ratio gpueta/echo over %zu rounds: min %.3f, median %.3f, max %.3f\n", ratios.size(), r.low, r.middle,
              r.high);
  const double g_cpu = pair.cpu_seconds[0] / pair.units[0], e_cpu = pair.cpu_seconds[1] / pair.units[1];
  std::printf("  processor time of the server: %.4g ns against %.4g ns, ratio echo/gpueta %.3f\n", g_cpu * 1e9,
              e_cpu * 1e9, e_cpu / g_cpu);
}

// The same call to both, by turns.
absl::Status BenchUnary(const std::string& what, const char* method, const google::protobuf::MessageLite& request,
                        int calls, int rounds, const std::shared_ptr<grpc::Channel> (&channels)[2],
                        const ServerProcess* const (&processes)[2]) {
  const grpc::ByteBuffer bytes = BytesOf(request);
  std::size_t answer_bytes[2] = {};
  Pair pair;
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    for (int turn = 0; turn < 2; ++turn) {
      const int who = (turn + round) & 1;
      GPUETA_RETURN_IF_ERROR(Measure(*processes[who], who, calls, round >= 0, pair, [&]() -> absl::StatusOr<double> {
        grpc::ByteBuffer answer;
        GPUETA_ASSIGN_OR_RETURN(const double seconds, RunUnary(channels[who], method, bytes, calls, answer));
        answer_bytes[who] = answer.Length();
        return 1 / seconds;
      }));
    }
  }
  PrintPair(what, pair, "calls/s");
  std::printf("  %zu bytes asked, %zu answered by gpueta-server, %zu by gpueta-echo\n", bytes.Length(), answer_bytes[0],
              answer_bytes[1]);
  return absl::OkStatus();
}

// A model of the size of Llama-3-8B, registered with the server.
absl::StatusOr<std::string> RegisterModel(TestClient& client) {
  v1::RegisterModelRequest request;
  request.set_config(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
      "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
      "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16"})");
  GPUETA_ASSIGN_OR_RETURN(const v1::Model model, client.Register(request));
  return model.name();
}

v1::AdmitRequest AdmitRequestOf(const std::string& model, const std::string& slug, int replicas, int running) {
  v1::AdmitRequest request;
  v1::EngineKind& engine = *request.add_engines();
  engine.set_model(model);
  engine.mutable_device()->set_slug(slug);
  for (int r = 0; r < replicas; ++r) {
    v1::Replica& replica = *request.add_replicas();
    replica.set_name(fmt::format("replica-{}", r));
    if (running == 0) {
      replica.mutable_metrics()->set_running(16);
      replica.mutable_metrics()->set_kv_usage(0.1 + 0.001 * (r % 100));
    }
    for (int i = 0; i < running; ++i) {
      v1::EngineRequest& sequence = *replica.add_running();
      sequence.set_prompt_tokens(100 + (r * 37 + i * 211) % 2000);
      sequence.set_generated_tokens(1 + (r + i * 13) % 200);
      sequence.set_since_first_token_us(1e4 * static_cast<double>(sequence.generated_tokens()));
    }
  }
  v1::Candidate& candidate = *request.add_candidates();
  candidate.set_id("request");
  candidate.set_prompt_tokens(1000);
  request.mutable_limits()->mutable_ttft()->set_us(5e5);
  request.mutable_limits()->mutable_tpot()->set_us(5e4);
  return request;
}

absl::Status Bench(const Options& options) {
  GPUETA_ASSIGN_OR_RETURN(const auto server,
                          ServerProcess::Start(options.server, {"--listen", "127.0.0.1:0", "--metrics-listen", "off",
                                                                "--profiles", "off", "--log-level", "error"}));
  GPUETA_ASSIGN_OR_RETURN(const auto echo, ServerProcess::Start(options.echo, {"--listen", "127.0.0.1:0"}));
  GPUETA_ASSIGN_OR_RETURN(const std::string file, ProfileBytes(options.profile));
  GPUETA_ASSIGN_OR_RETURN(LoadedProfile loaded, ParseProfile(file));
  const std::string slug = loaded.profile.device;
  TestClient client(server->address());
  TestClient echo_client(echo->address());
  GPUETA_RETURN_IF_ERROR(client.Publish("devices/" + slug, file, true).status());
  GPUETA_ASSIGN_OR_RETURN(const auto snapshot,
                          Snapshot::Build({{.loaded = std::move(loaded), .node = "", .version = 1}}));
  GPUETA_ASSIGN_OR_RETURN(const auto predictor, snapshot->Find(slug));
  const std::shared_ptr<grpc::Channel> channels[] = {client.channel(), echo_client.channel()};
  const ServerProcess* const processes[] = {server.get(), echo.get()};

  std::printf("profile of %s, %d kernel rows (gemm bf16) a round, one stream, client and servers on %ld processors\n",
              slug.c_str(), options.rows, sysconf(_SC_NPROCESSORS_ONLN));
  for (const int batch : options.batches) {
    std::vector<v1::StreamPredictRequest> items;
    std::vector<grpc::ByteBuffer> bytes;
    for (int start = 0; start < options.rows; start += batch) {
      v1::StreamPredictRequest& item = items.emplace_back();
      item.set_id(static_cast<std::uint64_t>(start));
      *item.mutable_request() =
          GemmColumnsRequest(slug, static_cast<std::uint32_t>(std::min(batch, options.rows - start)),
                             static_cast<std::uint32_t>(start + 1));
      bytes.push_back(BytesOf(item));
    }
    Pair pair;
    Agreement agreement;
    std::vector<grpc::ByteBuffer> answers;
    for (int round = -1; round < options.rounds; ++round) {  // the first one warms up
      for (int turn = 0; turn < 2; ++turn) {
        const int who = (turn + round) & 1;  // each goes first in turn
        GPUETA_RETURN_IF_ERROR(
            Measure(*processes[who], who, options.rows, round >= 0, pair, [&]() -> absl::StatusOr<double> {
              GPUETA_ASSIGN_OR_RETURN(const double seconds, RunStream(channels[who], bytes, answers));
              return options.rows / seconds;
            }));
        if (round == 0 && who == 0) GPUETA_RETURN_IF_ERROR(CheckAnswers(*predictor, items, answers, agreement));
      }
    }
    PrintPair(fmt::format("StreamPredict, columns of {} rows", batch), pair, "rows/s");
    std::printf(
        "  %ld rows checked against the predictor in process: %.4f %% equal to the bit, largest difference %.2g\n",
        static_cast<long>(agreement.rows),
        100.0 * static_cast<double>(agreement.equal) / (3.0 * static_cast<double>(agreement.rows)), agreement.worst);
    if (agreement.worst > kTolerance) return Internal("answers differ by more than {}", kTolerance);
  }

  v1::PredictRequest one;
  one.add_devices()->set_slug(slug);
  one.mutable_kernel()->set_dtype(v1::DTYPE_BF16);
  one.mutable_kernel()->mutable_gemm()->set_m(512);
  one.mutable_kernel()->mutable_gemm()->set_n(4096);
  one.mutable_kernel()->mutable_gemm()->set_k(4096);
  GPUETA_RETURN_IF_ERROR(BenchUnary("Predict, one kernel a call, one call at a time", kPredictMethod, one,
                                    options.calls, options.rounds, channels, processes));

  GPUETA_ASSIGN_OR_RETURN(const std::string model, RegisterModel(client));
  for (const int running : options.running) {
    const v1::AdmitRequest admit = AdmitRequestOf(model, slug, options.replicas, running);
    GPUETA_RETURN_IF_ERROR(BenchUnary(
        fmt::format("Admit, {} replicas, {}", options.replicas,
                    running == 0 ? "known by metrics (16 running)" : fmt::format("{} running requests each", running)),
        kAdmitMethod, admit, options.admits, options.rounds, channels, processes));
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("Speed of predictions over the wire, against gpueta-echo in the same run.", "over_the_wire");
  Options options;
  const std::filesystem::path here = std::filesystem::canonical("/proc/self/exe").parent_path();
  options.server = here / "gpueta-server";
  options.echo = here / "gpueta-echo";
  app.add_option("--server", options.server, "gpueta-server's binary [beside this one]")->type_name("PATH");
  app.add_option("--echo", options.echo, "gpueta-echo's binary [beside this one]")->type_name("PATH");
  app.add_option("--profile", options.profile, "Profile to publish [one made by hand]")->type_name("FILE");
  app.add_option("--rows", options.rows, "Kernel rows a round [1000000]")->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batches, "Rows an item; may be repeated [1000 10000]")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "Rounds, each with both servers [5]")->check(CLI::PositiveNumber);
  app.add_option("--calls", options.calls, "Unary calls a round [2000]")->check(CLI::PositiveNumber);
  app.add_option("--replicas", options.replicas, "Replicas of an Admit call [500]")->check(CLI::PositiveNumber);
  app.add_option("--running", options.running, "Requests that run on each; 0: metrics; may be repeated [0 16]")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--admits", options.admits, "Admit calls a round [50]")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Bench(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "over_the_wire: %s\n", MessageOf(status).c_str());
  return 1;
}

}  // namespace
}  // namespace gpueta

int main(int argc, char** argv) { return gpueta::Main(argc, argv); }
