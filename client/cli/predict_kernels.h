// `gpueta predict --kernels`: a CSV of kernels in, the same rows with their
// estimates out.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/command.h"

namespace gpueta::cli {

struct PredictKernelsArgs {
  std::string kernels;
  std::vector<std::string> profile_paths;
  std::vector<std::string> devices;  // empty: the rows' own device column
  std::string estimator;
  std::string spec;  // file with a spec row, for a device outside the catalogue
  std::string out;
};

absl::Status PredictKernels(const PredictKernelsArgs& args, const Globals& globals);

}  // namespace gpueta::cli
