// `gpueta predict MODEL`: the latency of a whole model.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/cli/ask.h"
#include "client/cli/command.h"

namespace gpueta::cli {

struct PredictModelArgs {
  ModelQuestion question;
  std::string by = "kernel";  // a line of the table is one kind of work, or `kind`, or `layer`
  bool explain = false;
  bool csv = false;
  std::string trace;  // file to write a Chrome trace to; empty: none
};

absl::Status PredictModel(const PredictModelArgs& args, const Globals& globals);

}  // namespace gpueta::cli
