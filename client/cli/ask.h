// Asking for a model's latency, in process or through a server.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "client/cli/model_input.h"
#include "core/predict/estimate.h"
#include "core/predict/predictor.h"

namespace gpueta::cli {

struct ModelQuestion {
  std::string model;  // a file, or with --server a registered model's name
  std::vector<std::string> profile_paths;
  std::vector<std::string> devices;
  DimArgs dims;
  RunArgs run;
  std::string spec;  // file with a spec row; empty: the catalogue's
  EstimateOptions options;
};

struct DeviceAnswer {
  std::string device;
  std::string profile_id;  // empty: no profile of its own
  std::int64_t profile_version = 0;
  GraphEstimate estimate;
  std::vector<std::string> relatives;  // what was taken from which devices, a line a table; in process only
};

// One answer a device, in the order asked. With --server, through one
// StreamPredict; the first device that cannot answer is the error.
absl::StatusOr<std::vector<DeviceAnswer>> Ask(const ModelQuestion& question, const Globals& globals);

}  // namespace gpueta::cli
