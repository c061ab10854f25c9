// `gpueta predict MODEL`: the latency of a whole model.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/command.h"
#include "client/cli/model_input.h"

namespace gpueta::cli {

struct PredictModelArgs {
  std::string model;  // a file, or with --server a registered model's name
  std::vector<std::string> profile_paths;
  std::vector<std::string> devices;
  DimArgs dims;
  RunArgs run;
  std::string estimator;
  std::string spec;
  bool explain = false;
  bool csv = false;
};

absl::Status PredictModel(const PredictModelArgs& args, const Globals& globals);

}  // namespace gpueta::cli
