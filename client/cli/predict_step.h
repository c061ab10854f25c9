// `gpueta predict CONFIG --step STEP.json`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/command.h"
#include "client/cli/serving_input.h"
#include "core/graph/passes/parallel.h"

namespace gpueta::cli {

struct PredictStepArgs {
  ServingModel model;
  std::string step;  // file
  std::vector<std::string> devices;
  Parallelism ranks;
  std::string dtype;
  std::string kv_dtype;
  double expert_imbalance = 1;
  std::string estimator;
};

absl::Status PredictStep(const PredictStepArgs& args, const Globals& globals);

}  // namespace gpueta::cli
