// The work of `gpueta eval --model-measurements`: times of whole models predicted,
// grouped and compared.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/eval_judge.h"
#include "client/cli/model_times.h"

namespace gpueta::cli {

// INVALID_ARGUMENT listing the columns there are, unless each name is one of
// model_e2e.csv, or derived: provenance (of the largest share), estimator, size.
absl::Status CheckModelColumns(const std::vector<std::string>& names);

// Predicts each run, run eagerly. A run that cannot be answered is an error with
// its line, unless such are left out; then they are counted.
absl::StatusOr<JudgedGroups> JudgeModels(const std::vector<ModelRun>& runs, const EvalQuestion& question,
                                         Predictors& predictors);

}  // namespace gpueta::cli
