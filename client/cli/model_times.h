// Measured times of whole models as commands take them: rows of a CSV, and the
// graph behind each model's name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/fit/whole_model_fit.h"
#include "core/graph/graph.h"
#include "core/measurements/model_measurements.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gpueta::cli {

struct ModelRunArgs {
  std::vector<std::string> files;   // model_e2e.csv's form
  std::vector<std::string> graphs;  // NAME=MODEL
  std::string attention = "fused";  // of config.json: or written-out
};
// --graph and --attention, which need `files`, the option that fills ModelRunArgs::files.
void AddModelRunOptions(CLI::App& command, CLI::Option* files, ModelRunArgs& args);

// A measured row and what ran: the graph at the row's dtype and mode, training
// steps forward and backward, as frameworks run it on the row's device.
struct ModelRun {
  ModelMeasurement measured;
  std::string where;  // "times.csv:7"
  std::shared_ptr<const Graph> graph;
  SymbolValues dims;
};

// The rows whose model has a graph. A device's name is its canonical slug.
// INVALID_ARGUMENT for a graph that is no NAME=MODEL or that no row names, for a
// graph that cannot be run as a row says (naming file and line), and when no row
// is left.
absl::StatusOr<std::vector<ModelRun>> ReadModelRuns(const ModelRunArgs& args);

// The same as what is fitted to.
absl::StatusOr<std::vector<ModelTime>> ReadModelTimes(const ModelRunArgs& args);

// INVALID_ARGUMENT if one is of another device.
absl::StatusOr<std::vector<ModelTime>> ReadModelTimesOf(const ModelRunArgs& args, const std::string& slug);

}  // namespace gpueta::cli
