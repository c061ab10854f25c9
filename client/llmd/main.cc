// gpueta-llmd: the HTTP contract of the llm-d latency predictor, answered by a
// gpueta-server. Routers find it by PREDICTION_SERVER_URL and
// TRAINING_SERVER_URL.
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "client/llmd/http_server.h"
#include "client/llmd/http_service.h"
#include "client/llmd/row_predictor.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/ops/dtype.h"
#include "core/wire/enum_codec.h"
#include "gpueta/client.h"

namespace gpueta::llmd {
namespace {

struct Args {
  std::string listen = "127.0.0.1:8001";
  std::string server = "127.0.0.1:7410";
  std::string model;
  std::string device;
  std::string dtype;
  std::string kv_dtype;
  RowPredictor::Options options;
  std::int64_t tp = 1, pp = 1, ep = 1, token_budget = 0, max_sequences = 0, kv_blocks = 0;
};

// UTC, ISO 8601, to the millisecond.
std::string Now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03d}Z", text, ms);
}

absl::Status SetDType(const char* option, const std::string& name, const std::function<void(v1::DType)>& set) {
  if (name.empty()) return absl::OkStatus();
  const auto dtype = ParseDType(name);
  if (!dtype.has_value()) return InvalidArgument("{}: \"{}\" is no type such as bf16 or fp8", option, name);
  set(wire::Encode(*dtype));
  return absl::OkStatus();
}

absl::Status SetEngine(const Args& args, Client& client, v1::EngineKind& engine) {
  if (std::filesystem::exists(args.model)) {
    v1::RegisterModelRequest request;
    GPUETA_ASSIGN_OR_RETURN(*request.mutable_config(), ReadWholeFile(args.model));
    const auto model = client.RegisterModel(request);
    if (!model.ok()) return Prefixed(model.status(), args.model);
    engine.set_model(model->name());
  } else {
    engine.set_model(args.model.starts_with("models/") ? args.model : "models/" + args.model);
  }
  engine.mutable_device()->set_slug(args.device);
  v1::Deployment& deployment = *engine.mutable_deployment();
  deployment.set_tensor_ranks(args.tp);
  deployment.set_pipeline_stages(args.pp);
  deployment.set_expert_ranks(args.ep);
  GPUETA_RETURN_IF_ERROR(SetDType("--dtype", args.dtype, [&](v1::DType d) { deployment.set_dtype(d); }));
  GPUETA_RETURN_IF_ERROR(SetDType("--kv-dtype", args.kv_dtype, [&](v1::DType d) { deployment.set_kv_dtype(d); }));
  engine.set_token_budget(args.token_budget);
  engine.set_max_sequences(args.max_sequences);
  engine.set_kv_blocks(args.kv_blocks);
  return absl::OkStatus();
}

absl::Status Run(Args args) {
  sigset_t stops;  // before any thread starts
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // clients may go at any time
  // Routers wait some 400 ms: what fails should do so soon.
  ClientOptions options;
  options.deadline = std::chrono::seconds(5);
  options.attempts = 2;
  GPUETA_ASSIGN_OR_RETURN(Client client, Client::Connect(args.server, options));
  GPUETA_RETURN_IF_ERROR(SetEngine(args, client, args.options.engine));
  RowPredictor predictor(args.options, [&client](const v1::AdmitRequest& request) { return client.Admit(request); });
  HttpService service(predictor, Now);
  // The first question makes the tables; until then /readyz says no.
  GPUETA_ASSIGN_OR_RETURN(
      const auto http,
      HttpServer::Start(args.listen, [&](std::string_view method, std::string_view path, std::string_view body) {
        return service.Answer(method, path, body);
      }));
  std::printf("gpueta-llmd listening on %s\n", http->address().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&stops, &signal);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("The HTTP contract of the llm-d latency predictor, answered by a gpueta-server.", "gpueta-llmd");
  app.set_version_flag("--version", "gpueta-llmd " GPUETA_VERSION);
  Args args;
  app.add_option("MODEL", args.model, "config.json of the pods' model, or a registered model's name")->required();
  app.add_option("--device", args.device, "The pods' GPUs, as a slug")->required();
  app.add_option("--server", args.server, "gpueta-server's address, e.g. unix:/run/gpueta.sock")
      ->envname("GPUETA_SERVER")
      ->capture_default_str();
  app.add_option("--listen", args.listen, "Address of the HTTP port; port 0 takes a free one")->capture_default_str();
  app.add_option("--quantile", args.options.quantile, "Of the latencies that are answered")
      ->check(CLI::Range(0.001, 0.999))
      ->capture_default_str();
  app.add_option("--tp", args.tp, "Tensor-parallel ranks")->check(CLI::PositiveNumber);
  app.add_option("--pp", args.pp, "Pipeline stages")->check(CLI::PositiveNumber);
  app.add_option("--ep", args.ep, "Expert-parallel ranks")->check(CLI::PositiveNumber);
  app.add_option("--dtype", args.dtype, "Of weights and products (default: the config's)");
  app.add_option("--kv-dtype", args.kv_dtype, "Of cached keys and values");
  app.add_option("--token-budget", args.token_budget, "max_num_batched_tokens (default: 8192)");
  app.add_option("--max-sequences", args.max_sequences, "max_num_seqs (default: 256)");
  app.add_option("--kv-blocks", args.kv_blocks, "Blocks of 16 tokens (default: as the GPU's memory allows)");
  app.add_option("--mean-prompt", args.options.mean_prompt_tokens, "Tokens of a prompt, of requests not described")
      ->check(CLI::Range(1.0, 1e7))
      ->capture_default_str();
  app.add_option("--mean-output", args.options.mean_output_tokens, "Tokens of an output, likewise")
      ->check(CLI::Range(1.0, 1e7))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int kUsage = 2;
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  const absl::Status status = Run(std::move(args));
  if (status.ok()) return 0;
  std::fprintf(stderr, "gpueta-llmd: %s\n", MessageOf(status).c_str());
  return 1;
}

}  // namespace
}  // namespace gpueta::llmd

int main(int argc, char** argv) { return gpueta::llmd::Main(argc, argv); }
