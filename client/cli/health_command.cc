#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "core/base/errors.h"

namespace gpueta::cli {
namespace {

absl::Status Health(const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  GPUETA_RETURN_IF_ERROR(client.CheckHealth());
  fmt::print("{}\n", globals.json ? nlohmann::json{{"serving", true}}.dump() : "serving");
  return absl::OkStatus();
}

}  // namespace

void AddHealth(CLI::App& app, const Globals& globals, Chosen& chosen) {
  app.add_subcommand("health", "Whether the server is ready (exit status 0)")->callback([&globals, &chosen] {
    chosen = [&globals] { return Health(globals); };
  });
}

}  // namespace gpueta::cli
