#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/model_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/base/printable.h"
#include "core/importers/huggingface/token_flops.h"

namespace gpueta::cli {
namespace {

constexpr std::int64_t kTypicalSequence = 128;

struct InspectArgs {
  std::string model;
  DimArgs dims;
  RunArgs run;
};

// Symbols that were not given get the value a reader would try first, so that
// counts can be shown; the names say which.
absl::StatusOr<SymbolValues> WithDefaults(const Graph& graph, const InspectArgs& args,
                                          std::vector<std::string>& assumed) {
  GPUETA_ASSIGN_OR_RETURN(SymbolValues values, SymbolsOf(graph, args.dims, args.run.kv_len));
  for (const Graph::Symbol& symbol : graph.symbols) {
    if (values.contains(symbol.name) || symbol.default_value > 0) continue;
    values[symbol.name] = symbol.name.starts_with("seq") || symbol.name == "kv_len" ? kTypicalSequence : 1;
    assumed.push_back(fmt::format("{}={} was assumed; give --dim {}=N", symbol.name, values[symbol.name], symbol.name));
  }
  return values;
}

// Of a config.json, and the context it is told for: --kv-len, else --seq, else
// one that a reader would try first. nullopt for other models.
struct OfToken {
  TokenFlops flops;
  std::int64_t context = 0;
};
absl::StatusOr<std::optional<OfToken>> OfTokenOf(const InspectArgs& args) {
  GPUETA_ASSIGN_OR_RETURN(const std::optional<std::string> config, ReadConfig(args.model));
  if (!config.has_value()) return std::nullopt;
  OfToken of{.flops = {}, .context = args.run.kv_len.value_or(args.dims.seq.value_or(kTypicalSequence))};
  GPUETA_ASSIGN_OR_RETURN(of.flops, FlopsPerToken(*config, of.context));
  return of;
}

nlohmann::json NumberOrNull(const std::optional<double>& value) {
  return value.has_value() ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

nlohmann::json ToJson(const std::optional<OfToken>& of) {
  if (!of.has_value()) return nullptr;
  return {{"context", of->context},
          {"prefill", NumberOrNull(of->flops.prefill)},
          {"decode", NumberOrNull(of->flops.decode)}};
}

absl::Status Inspect(const InspectArgs& args, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(const HuggingFaceOptions options, OptionsOf(args.run));
  GPUETA_ASSIGN_OR_RETURN(const Graph graph, ReadModel(args.model, options));
  std::vector<std::string> warnings = graph.warnings;
  GPUETA_ASSIGN_OR_RETURN(const SymbolValues values, WithDefaults(graph, args, warnings));
  GPUETA_ASSIGN_OR_RETURN(const GraphCounts counts, CountsOf(graph, values));
  GPUETA_ASSIGN_OR_RETURN(const std::optional<OfToken> of_token, OfTokenOf(args));
  const std::int64_t active = graph.active_parameters > 0 ? graph.active_parameters : graph.parameters;
  std::vector<std::string> symbols;
  for (const Graph::Symbol& symbol : graph.symbols) symbols.push_back(symbol.name);
  if (globals.json) {
    const nlohmann::json out = {
        {"parameters", graph.parameters},
        {"active_parameters", active},
        {"macs", counts.macs},
        {"flops", counts.flops},
        {"bytes", counts.bytes},
        {"flops_per_token", ToJson(of_token)},
        {args.model.ends_with(".onnx") ? "onnx_nodes" : "source_ops", graph.source_op_counts},
        {"counts", counts.kernels},
        {"symbols", symbols},
        {"inputs", graph.inputs},
        {"kv_bytes_per_token", graph.kv_bytes_per_token > 0 ? nlohmann::json(graph.kv_bytes_per_token) : nullptr},
        {"warnings", warnings}};
    fmt::print("{}\n", Dump(out));
    return absl::OkStatus();
  }
  fmt::print("{}\n", Printable(graph.display_name));
  for (const std::string& input : graph.inputs) fmt::print("  input       {}\n", Printable(input));
  fmt::print("  parameters  {:L}\n  MACs        {:L}\n  traffic     {:.4g} MB at least\n", graph.parameters,
             counts.macs, static_cast<double>(counts.bytes) / 1e6);
  const auto print_of_token = [&](const char* phase, const std::optional<double>& flops) {
    if (flops.has_value())
      fmt::print("  FLOPs       {:.4g} G a token of {} at {} tokens\n", *flops / 1e9, phase, of_token->context);
  };
  if (of_token.has_value()) {
    print_of_token("prefill", of_token->flops.prefill);
    print_of_token("decode", of_token->flops.decode);
  }
  if (active != graph.parameters) fmt::print("  active      {:L} of a token\n", active);
  if (graph.kv_bytes_per_token > 0) fmt::print("  cache       {:L} bytes a token\n", graph.kv_bytes_per_token);
  if (!symbols.empty()) fmt::print("  symbols     {}\n", fmt::join(symbols, ", "));
  terminal::TextTable kernels({"kernels", "count"});
  for (const auto& [op, count] : counts.kernels) kernels.Add({op, std::to_string(count)});
  terminal::TextTable nodes({"source operator", "count"});
  for (const auto& [op, count] : graph.source_op_counts) nodes.Add({op, std::to_string(count)});
  fmt::print("\n{}\n{}", kernels.Render(), nodes.Render());
  for (const std::string& warning : warnings) fmt::print("note: {}\n", Printable(warning));
  return absl::OkStatus();
}

}  // namespace

void AddInspect(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<InspectArgs>();
  CLI::App* inspect = app.add_subcommand("inspect", "What a model is made of: parameters, MACs, kernels");
  inspect->add_option("MODEL", args->model, ".onnx, config.json, trace or graph file")
      ->required()
      ->check(CLI::ExistingFile);
  AddDimOptions(*inspect, args->dims);
  AddPhaseOptions(*inspect, args->run);
  inspect->callback([args, &globals, &chosen] { chosen = [args, &globals] { return Inspect(*args, globals); }; });
}

}  // namespace gpueta::cli
