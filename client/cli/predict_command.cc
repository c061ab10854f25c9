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
      predict->add_option("MODEL", args->model.question.model,
                          ".onnx, config.json, trace or graph file, or a registered model's name with --server");
  auto* kernels =
      predict->add_option("--kernels", args->kernels.kernels, "CSV of kernels; a latency column is not read")
          ->check(CLI::ExistingFile);
  AddQuestionOptions(*predict, args->model.question);
  auto* out = predict->add_option("--out", args->kernels.out, "With --kernels: CSV to write");
  predict->add_flag("--explain", args->model.explain, "Every kernel of every device, and every pass");
  predict->add_flag("--csv", args->model.csv, "One line a kernel");
  predict->add_option("--trace", args->model.trace, "Write the time line as a Chrome trace, for ui.perfetto.dev");
  kernels->excludes(model);
  kernels->needs(out);
  out->needs(kernels);
  for (const char* of_models :
       {"--batch", "--seq", "--dim", "--phase", "--kv-len", "--dtype", "--kv-dtype", "--mode", "--attention", "--tp",
        "--pp", "--ep", "--train", "--optimiser", "--passes", "--explain", "--csv", "--trace"}) {
    kernels->excludes(predict->get_option(of_models));
  }
  predict->callback([args, model, kernels, &globals, &chosen] {
    const ModelQuestion& question = args->model.question;
    if (kernels->count() > 0) {
      args->kernels.profile_paths = question.profile_paths;
      args->kernels.devices = question.devices;
      args->kernels.estimator = question.estimator;
      args->kernels.spec = question.spec;
      chosen = [args, &globals] { return PredictKernels(args->kernels, globals); };
      return;
    }
    if (model->count() == 0) throw CLI::RequiredError("MODEL or --kernels");
    if (question.devices.empty()) throw CLI::RequiredError("--device");
    chosen = [args, &globals] { return PredictModel(args->model, globals); };
  });
}

}  // namespace gpueta::cli
