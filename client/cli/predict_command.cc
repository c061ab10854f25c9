#include <CLI/CLI.hpp>
#include <memory>

#include "client/cli/command.h"
#include "client/cli/predict_kernels.h"
#include "client/cli/predict_model.h"

namespace gpueta::cli {

void AddPredict(CLI::App& app, const Globals& globals, Chosen& chosen) {
  struct Args {
    PredictKernelsArgs kernels;
    PredictModelArgs model;
  };
  auto args = std::make_shared<Args>();
  CLI::App* predict = app.add_subcommand("predict", "Predict the latency of a model, or of kernels in a CSV");
  auto* model =
      predict->add_option("MODEL", args->model.model,
                          ".onnx, config.json, trace or graph file, or a registered model's name with --server");
  auto* kernels =
      predict->add_option("--kernels", args->kernels.kernels, "CSV of kernels; a latency column is not read")
          ->check(CLI::ExistingFile);
  predict
      ->add_option("--profile", args->kernels.profile_paths, "Profiles to use in place of a directory; may be repeated")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile);
  predict
      ->add_option("--device", args->kernels.devices,
                   "Devices to predict for, by commas (with --kernels by default each row's own)")
      ->allow_extra_args(false)
      ->delimiter(',');
  predict->add_option(
      "--estimator", args->kernels.estimator,
      "A form by name: family, launch, kernel-aware, whole-model, inter-gpu, roofline (default: the best one)");
  auto* out = predict->add_option("--out", args->kernels.out, "With --kernels: CSV to write");
  AddDimOptions(*predict, args->model.dims);
  AddRunOptions(*predict, args->model.run);
  predict->add_option("--spec", args->model.spec, "CSV with a spec row, for a device outside the catalogue")
      ->check(CLI::ExistingFile);
  predict->add_flag("--explain", args->model.explain, "Every kernel of every device");
  predict->add_flag("--csv", args->model.csv, "One line a kernel");
  kernels->excludes(model);
  kernels->needs(out);
  out->needs(kernels);
  for (const char* of_models :
       {"--batch", "--seq", "--dim", "--phase", "--kv-len", "--dtype", "--kv-dtype", "--mode", "--attention", "--tp",
        "--pp", "--ep", "--train", "--optimiser", "--explain", "--csv"}) {
    kernels->excludes(predict->get_option(of_models));
  }
  predict->callback([args, model, kernels, &globals, &chosen] {
    args->kernels.spec = args->model.spec;
    if (kernels->count() > 0) {
      chosen = [args, &globals] { return PredictKernels(args->kernels, globals); };
      return;
    }
    if (model->count() == 0) throw CLI::RequiredError("MODEL or --kernels");
    if (args->kernels.devices.empty()) throw CLI::RequiredError("--device");
    args->model.profile_paths = args->kernels.profile_paths;
    args->model.devices = args->kernels.devices;
    args->model.estimator = args->kernels.estimator;
    chosen = [args, &globals] { return PredictModel(args->model, globals); };
  });
}

}  // namespace gpueta::cli
