// Measured times of whole models as commands take them: rows of a CSV, and the
// graph behind each model's name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/fit/whole_model_fit.h"

namespace gpueta::cli {

struct ModelTimeArgs {
  std::vector<std::string> files;   // model_e2e.csv's form
  std::vector<std::string> graphs;  // NAME=MODEL
  std::string attention = "fused";  // of config.json: or written-out
};

// The rows whose model has a graph, with the kernels it runs at the row's dtype,
// batch and mode; training steps are forward and backward. A device's name is
// its canonical slug. INVALID_ARGUMENT for a graph that is no NAME=MODEL or that
// no row names, for a graph that cannot be run as a row says (naming file and
// line), and when no row is left.
absl::StatusOr<std::vector<ModelTime>> ReadModelTimes(const ModelTimeArgs& args);

// INVALID_ARGUMENT if one is of another device.
absl::StatusOr<std::vector<ModelTime>> ReadModelTimesOf(const ModelTimeArgs& args, const std::string& slug);

}  // namespace gpueta::cli
