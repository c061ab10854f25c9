#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/model_input.h"
#include "client/terminal/terminal.h"
#include "core/base/errors.h"
#include "core/wire/graph_codec.h"
#include "gpueta/client.h"

namespace gpueta::cli {
namespace {

nlohmann::json ToJson(const v1::Model& model) {
  nlohmann::json out = {{"name", model.name()},
                        {"display_name", model.display_name()},
                        {"nodes", model.node_count()},
                        {"parameters", model.parameters()},
                        {"active_parameters", model.active_parameters()},
                        {"kv_bytes_per_token", model.kv_bytes_per_token()},
                        {"has_config", model.has_config()},
                        {"warnings", nlohmann::json::array()},
                        {"aliases", nlohmann::json::array()},
                        {"symbols", nlohmann::json::array()},
                        {"counts", nlohmann::json::object()}};
  for (const std::string& warning : model.warnings()) out["warnings"].push_back(warning);
  for (const std::string& alias : model.aliases()) out["aliases"].push_back(alias);
  for (const auto& symbol : model.symbols()) out["symbols"].push_back(symbol.name());
  for (const auto& [op, count] : model.kernel_counts()) out["counts"][op] = count;
  return out;
}

absl::Status Register(const std::string& path, const RunArgs& run, const std::string& alias, const Globals& globals) {
  v1::RegisterModelRequest request;
  GPUETA_ASSIGN_OR_RETURN(const std::optional<std::string> config, ReadConfig(path));
  if (config.has_value() && run.phase.empty() && !run.kv_len.has_value()) {
    request.set_config(*config);
    request.set_display_name(ModelDisplayName(path));
  } else {
    GPUETA_ASSIGN_OR_RETURN(const HuggingFaceOptions options, OptionsOf(run));
    GPUETA_ASSIGN_OR_RETURN(const Graph graph, ReadModel(path, options));
    *request.mutable_graph() = wire::Encode(graph);
  }
  request.set_alias(alias);
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  GPUETA_ASSIGN_OR_RETURN(const v1::Model model, client.RegisterModel(request));
  if (globals.json) {
    fmt::print("{}\n", ToJson(model).dump(2));
  } else {
    fmt::print("registered {}{}: {} nodes, {:L} parameters\n", model.name(), alias.empty() ? "" : " as " + alias,
               model.node_count(), model.parameters());
  }
  return absl::OkStatus();
}

absl::Status List(const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  nlohmann::json json = nlohmann::json::array();
  terminal::TextTable table({"model", "aliases", "shown as", "nodes", "parameters", "symbols"});
  v1::ListModelsRequest request;
  do {
    GPUETA_ASSIGN_OR_RETURN(const v1::ListModelsResponse page, client.ListModels(request));
    for (const v1::Model& model : page.models()) {
      json.push_back(ToJson(model));
      std::vector<std::string> symbols;
      for (const auto& symbol : model.symbols()) symbols.push_back(symbol.name());
      table.Add({model.name(), fmt::format("{}", fmt::join(model.aliases(), ", ")), model.display_name(),
                 std::to_string(model.node_count()), std::to_string(model.parameters()),
                 fmt::format("{}", fmt::join(symbols, ", "))});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  fmt::print("{}", globals.json ? json.dump(2) + "\n" : table.Render());
  return absl::OkStatus();
}

}  // namespace

void AddModel(CLI::App& app, const Globals& globals, Chosen& chosen) {
  CLI::App* model = app.add_subcommand("model", "Models registered with a server");
  model->require_subcommand(1);
  struct Args {
    RunArgs run;
    std::string path;
    std::string alias;
  };
  auto args = std::make_shared<Args>();
  CLI::App* add = model->add_subcommand("register", "Register a model, to ask for it by name");
  add->add_option("MODEL", args->path, ".onnx, config.json, trace or graph file")->required()->check(CLI::ExistingFile);
  AddPhaseOptions(*add, args->run);
  add->add_option("--alias", args->alias, "A name to ask for it by");
  add->callback([args, &globals, &chosen] {
    chosen = [args, &globals] { return Register(args->path, args->run, args->alias, globals); };
  });
  model->add_subcommand("list", "List registered models")->callback([&globals, &chosen] {
    chosen = [&globals] { return List(globals); };
  });
}

}  // namespace gpueta::cli
