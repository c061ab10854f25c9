// The commands of `gpueta`. Each adds its subcommand to the application and
// says what to run.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace gpueta::cli {

// Options every command understands.
struct Globals {
  bool json = false;
  std::string server;    // --server or GPUETA_SERVER; empty: in process
  std::string profiles;  // --profiles; empty: the installed ones
  std::uint64_t seed = 0;
};

// What the command line chose; run by main after parsing.
using Chosen = std::function<absl::Status()>;

void AddFit(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddPlan(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddPredict(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddEval(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddInspect(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddMeasure(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddEmulate(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddImportTrace(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddCompare(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddProfile(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddKernels(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddModel(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddHealth(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddErrors(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddAdmit(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddMaxBatch(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddPlanServing(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddRank(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddReport(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddFitOverhead(CLI::App& app, const Globals& globals, Chosen& chosen);
void AddDevices(CLI::App& app, const Globals& globals, Chosen& chosen);

}  // namespace gpueta::cli
