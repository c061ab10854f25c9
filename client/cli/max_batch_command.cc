#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/serving_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/wire/serving_codec.h"

namespace gpueta::cli {
namespace {

struct MaxBatchArgs {
  ServingArgs serving;
  std::string device;
  std::int64_t tp = 1;
  std::vector<std::int64_t> contexts;
  std::int64_t isl = 0;  // 0: no rate
  std::int64_t osl = 0;
};

absl::StatusOr<v1::MaxBatchResponse> AskInProcess(const MaxBatchArgs& args, const EngineSetup& setup,
                                                  const MaxBatchQuestion& question, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(LocalEngines engines,
                          LocalEngines::Open(args.serving.model.model, args.serving.model.profile_paths, globals));
  GPUETA_ASSIGN_OR_RETURN(const auto served, engines.Serve(args.device, setup, LongestOf(question)));
  GPUETA_ASSIGN_OR_RETURN(const MaxBatchAnswer answer, MaxBatch(*served, setup, question));
  v1::MaxBatchResponse message;
  wire::Encode(*served, answer, message);
  return message;
}

absl::StatusOr<v1::MaxBatchResponse> AskServer(const MaxBatchArgs& args, const EngineSetup& setup,
                                               const MaxBatchQuestion& question, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(RemoteEngines remote, OpenRemote(args.serving.model.model, globals));
  v1::MaxBatchRequest request;
  request.mutable_engine()->set_model(remote.model);
  request.mutable_engine()->mutable_device()->set_slug(args.device);
  wire::Encode(setup, *request.mutable_engine());
  wire::Encode(question, request);
  return remote.client.MaxBatch(request);
}

void Print(const MaxBatchArgs& args, const v1::MaxBatchResponse& answer) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  fmt::print(
      "{} on {} × {}: weights {:.3g} GiB, activations up to {:.3g} GiB, cache {:.3g} GiB of {:.3g} GiB a GPU; "
      "{:.4g} bytes a token\n",
      args.serving.model.model, answer.gpus(), args.device, answer.weight_bytes() / kGiB,
      answer.activation_bytes() / kGiB, answer.cache_bytes() / kGiB, answer.memory_bytes() / kGiB,
      answer.kv_bytes_per_token());
  terminal::TextTable table({"context", "sequences", "bound by", "step p50", "step p90", "prefill tokens beside"});
  for (const v1::MaxBatchResponse::Batch& batch : answer.batches()) {
    const bool any = batch.sequences() > 0;
    table.Add({std::to_string(batch.context()), std::to_string(batch.sequences()), batch.binds(),
               any ? terminal::FormatUs(batch.step_us().p50()) : "–",
               any ? terminal::FormatUs(batch.step_us().p90()) : "–", std::to_string(batch.prefill_tokens())});
  }
  if (answer.batches_size() > 0) fmt::print("{}", table.Render());
  if (answer.has_rate()) {
    const v1::MaxBatchResponse::Rate& rate = answer.rate();
    if (rate.sequences() == 0) {
      fmt::print("prompts of {} tokens, outputs of {}: no rate meets the limits\n", args.isl, args.osl);
    } else {
      fmt::print(
          "prompts of {} tokens, outputs of {}: up to {:.3g} requests/s ({:.4g} tokens/s), {} sequences at a time, "
          "TTFT {} {}, TPOT {} {}\n",
          args.isl, args.osl, rate.requests_per_s(), rate.output_tokens_per_s(), rate.sequences(),
          QuantileOf(args.serving, args.serving.ttft), terminal::FormatUs(rate.ttft_us()),
          QuantileOf(args.serving, args.serving.tpot), terminal::FormatUs(rate.tpot_us()));
    }
  }
  for (const std::string& warning : answer.warnings()) fmt::print("note: {}\n", warning);
}

nlohmann::json ToJson(const MaxBatchArgs& args, const v1::MaxBatchResponse& answer) {
  nlohmann::json contexts = nlohmann::json::array();
  for (const v1::MaxBatchResponse::Batch& batch : answer.batches()) {
    const v1::Quantiles& step = batch.step_us();
    contexts.push_back({{"context", batch.context()},
                        {"sequences", batch.sequences()},
                        {"bound_by", batch.binds()},
                        {"step_us", {{"p50", step.p50()}, {"p90", step.p90()}, {"p99", step.p99()}}},
                        {"prefill_tokens", batch.prefill_tokens()}});
  }
  nlohmann::json rate;  // null: not asked for
  if (answer.has_rate()) {
    rate = {{"sequences", answer.rate().sequences()},
            {"requests_per_s", answer.rate().requests_per_s()},
            {"output_tokens_per_s", answer.rate().output_tokens_per_s()},
            {"ttft_us", answer.rate().ttft_us()},
            {"tpot_us", answer.rate().tpot_us()}};
  }
  return {{"model", args.serving.model.model},
          {"device", args.device},
          {"gpus", answer.gpus()},
          {"weight_bytes", answer.weight_bytes()},
          {"activation_bytes", answer.activation_bytes()},
          {"cache_bytes", answer.cache_bytes()},
          {"kv_bytes_per_token", answer.kv_bytes_per_token()},
          {"kv_blocks", answer.kv_blocks()},
          {"contexts", contexts},
          {"rate", rate},
          {"warnings", std::vector<std::string>(answer.warnings().begin(), answer.warnings().end())}};
}

absl::Status AskMaxBatch(const MaxBatchArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const EngineSetup setup, SetupOf(args.serving, args.tp));
  MaxBatchQuestion question;
  question.contexts = args.contexts;
  if ((args.isl > 0) != (args.osl > 0)) return InvalidArgument("--isl and --osl: give both, for a request rate");
  if (args.isl > 0) question.load = {.input_tokens = args.isl, .output_tokens = args.osl};
  if (question.contexts.empty() && !question.load.has_value()) {
    return InvalidArgument("give --ctx for batches, or --isl and --osl for a request rate");
  }
  GPUETA_ASSIGN_OR_RETURN(question.limits, LimitsOf(args.serving));
  GPUETA_ASSIGN_OR_RETURN(const v1::MaxBatchResponse answer, globals.server.empty()
                                                                 ? AskInProcess(args, setup, question, globals)
                                                                 : AskServer(args, setup, question, globals));
  if (globals.json) {
    fmt::print("{}\n", ToJson(args, answer).dump(2));
  } else {
    Print(args, answer);
  }
  return absl::OkStatus();
}

}  // namespace

void AddMaxBatch(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<MaxBatchArgs>();
  CLI::App* command = app.add_subcommand("max-batch", "How many sequences an LLM can decode at once within a limit");
  AddServingOptions(*command, args->serving);
  command->add_option("--device", args->device, "Slug")->required();
  command->add_option("--tp", args->tp, "Tensor-parallel ranks")->check(CLI::PositiveNumber);
  command->add_option("--ctx", args->contexts, "Tokens of each sequence; several give a table")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 26));
  command->add_option("--isl", args->isl, "Tokens of a prompt: with --osl, the largest request rate within the limits")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--osl", args->osl, "Tokens of an output")->check(CLI::Range(1, 1 << 24));
  command->callback([args, &globals, &chosen] { chosen = [args, &globals] { return AskMaxBatch(*args, globals); }; });
}

}  // namespace gpueta::cli
