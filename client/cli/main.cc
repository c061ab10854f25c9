// gpueta: how long will this work take on that GPU?

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <system_error>

#include "client/cli/command.h"
#include "core/base/errors.h"
#include "core/base/printable.h"

namespace {

// The disk is full, or what reads the output is gone.
int OutputLost() {
  std::fputs("gpueta: cannot write the output: standard output is full or closed\n", stderr);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace gpueta::cli;
  CLI::App app{"How long will this work take on that GPU?"};
  app.set_version_flag("--version", GPUETA_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  Globals globals;
  app.add_flag("--json", globals.json, "One JSON document on stdout and nothing else");
  app.add_option("--server", globals.server, "Ask a running server, e.g. 127.0.0.1:7410")->envname("GPUETA_SERVER");
  app.add_option("--profiles", globals.profiles,
                 "Directory of profiles to work with in process (default: the installed ones)")
      ->envname("GPUETA_PROFILES");
  app.add_option("--seed", globals.seed, "Seed wherever anything is random")->capture_default_str();

  Chosen chosen;
  for (const auto add : {AddPredict,     AddInspect,     AddDevices, AddPlan,    AddMeasure, AddEmulate, AddImportTrace,
                         AddCompare,     AddFit,         AddEval,    AddReport,  AddRank,    AddAdmit,   AddMaxBatch,
                         AddPlanServing, AddFitOverhead, AddProfile, AddKernels, AddModel,   AddErrors,  AddHealth}) {
    add(app, globals, chosen);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int kUsage = 2;
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  try {
    if (const absl::Status status = chosen(); !status.ok()) {
      fmt::print(stderr, "gpueta: {}\n", gpueta::Printable(gpueta::MessageOf(status), "\n"));
      return 1;
    }
  } catch (const std::system_error&) {
    return OutputLost();
  }
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? 0 : OutputLost();
}
