#include <CLI/CLI.hpp>
#include <memory>

#include "client/cli/command.h"
#include "client/cli/predict_kernels.h"

namespace gpueta::cli {

void AddPredict(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<PredictKernelsArgs>();
  CLI::App* predict = app.add_subcommand("predict", "Predict the latency of kernels or of a model");
  predict->add_option("--kernels", args->kernels, "CSV of kernels; a latency column is not read")->check(CLI::ExistingFile);
  predict->add_option("--profile", args->profile_paths, "Profiles to use in place of a directory")->check(CLI::ExistingFile);
  predict->add_option("--device", args->devices, "Devices to predict for (default: each row's own)")->delimiter(',');
  predict->add_option("--estimator", args->estimator, "A form by name: family, kernel-aware, roofline (default: the best one)");
  predict->add_option("--out", args->out, "CSV to write");
  predict->callback([args, &globals, &chosen] { chosen = [args, &globals] { return PredictKernels(*args, globals); }; });
}

}  // namespace gpueta::cli
