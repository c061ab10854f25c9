#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/inputs.h"
#include "client/cli/serving_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"

namespace gpueta::cli {
namespace {

struct MaxBatchArgs {
  ServingArgs serving;
  std::string device;
  std::int64_t tp = 1;
  std::vector<std::int64_t> contexts;
};

struct Row {
  std::int64_t context = 0;
  LargestBatch batch;
  std::int64_t chunk = 0;  // next to that batch; 0 without a limit
};

void Print(const Served& served, const std::vector<Row>& rows) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  const CacheRoom& room = served.room;
  fmt::print(
      "{} on {} × {}: weights {:.3g} GiB, activations up to {:.3g} GiB, cache {:.3g} GiB of {:.3g} GiB a GPU; "
      "{:.4g} bytes a token\n",
      served.model.display_name(), served.gpus, served.device, room.weight_bytes / kGiB, room.activation_bytes / kGiB,
      room.cache_bytes / kGiB, room.memory_bytes / kGiB, served.model.kv_bytes_per_token());
  terminal::TextTable table({"context", "sequences", "bound by", "step p50", "step p90", "prefill tokens beside"});
  for (const Row& row : rows) {
    const bool any = row.batch.sequences > 0;
    table.Add({std::to_string(row.context), std::to_string(row.batch.sequences), row.batch.binds,
               any ? terminal::FormatUs(row.batch.step.p50_us) : "–",
               any ? terminal::FormatUs(row.batch.step.Quantile(0.9)) : "–", std::to_string(row.chunk)});
  }
  fmt::print("{}", table.Render());
  for (const std::string& warning : served.model.warnings()) fmt::print("note: {}\n", warning);
}

nlohmann::json ToJson(const Served& served, const std::vector<Row>& rows) {
  nlohmann::json contexts = nlohmann::json::array();
  for (const Row& row : rows) {
    const StepLatency& step = row.batch.step;
    contexts.push_back({{"context", row.context},
                        {"sequences", row.batch.sequences},
                        {"bound_by", row.batch.binds},
                        {"step_us", {{"p50", step.p50_us}, {"p90", step.Quantile(0.9)}, {"p99", step.Quantile(0.99)}}},
                        {"prefill_tokens", row.chunk}});
  }
  return {{"model", served.model.display_name()},
          {"device", served.device},
          {"gpus", served.gpus},
          {"weight_bytes", served.room.weight_bytes},
          {"activation_bytes", served.room.activation_bytes},
          {"cache_bytes", served.room.cache_bytes},
          {"kv_bytes_per_token", served.model.kv_bytes_per_token()},
          {"kv_blocks", served.room.blocks},
          {"contexts", contexts},
          {"warnings", served.model.warnings()}};
}

absl::Status MaxBatch(const MaxBatchArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const LatencyLimits limits, LimitsOf(args.serving));
  GPUETA_ASSIGN_OR_RETURN(const Deployment deployment, DeploymentOf(args.serving, args.tp));
  GPUETA_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(args.serving.model.path));
  GPUETA_ASSIGN_OR_RETURN(const auto snapshot, OpenSnapshot(globals, args.serving.model.profile_paths));
  GPUETA_ASSIGN_OR_RETURN(const Served served, Serve(args.serving.model, json, *snapshot, args.device, deployment,
                                                     {.tokens = args.serving.token_budget,
                                                      .sequences = args.serving.max_sequences,
                                                      .context = *std::ranges::max_element(args.contexts)}));
  std::vector<Row> rows;
  for (const std::int64_t context : args.contexts) {
    Row row{context, MaxDecodeBatch(served.model, served.table, served.room, context, limits.tpot)};
    if (limits.tpot.has_value()) {
      row.chunk = MaxPrefillChunk(served.table, row.batch.sequences, context, *limits.tpot);
    }
    rows.push_back(row);
  }
  if (globals.json) {
    fmt::print("{}\n", ToJson(served, rows).dump(2));
  } else {
    Print(served, rows);
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
      ->required()
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 26));
  command->callback([args, &globals, &chosen] { chosen = [args, &globals] { return MaxBatch(*args, globals); }; });
}

}  // namespace gpueta::cli
