// `gpueta report MODEL`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/ask.h"
#include "client/report/model_report.h"

namespace gpueta::cli {

// All that the page shows. Without devices in the question, those with a
// profile are compared and the fastest is shown in detail; with one, it is
// compared with them.
absl::StatusOr<report::ModelReport> MakeModelReport(ModelQuestion question, const Globals& globals);

}  // namespace gpueta::cli
