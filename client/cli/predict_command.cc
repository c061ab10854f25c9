#include <CLI/CLI.hpp>
#include <memory>

#include "client/cli/command.h"
#include "client/cli/predict_kernels.h"
#include "client/cli/predict_model.h"
#include "client/cli/predict_step.h"

namespace gpueta::cli {

void AddPredict(CLI::App& app, const Globals& globals, Chosen& chosen) {
  struct Args {
    PredictKernelsArgs kernels;
    PredictModelArgs model;
    std::string step;
    std::string step_overhead;
    std::string token_overhead;
    double expert_imbalance = 1;
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
  auto* step = predict
                   ->add_option("--step", args->step,
                                "Of a config.json: JSON with one step of an LLM engine, its prefill chunks and "
                                "decode_context")
                   ->check(CLI::ExistingFile);
  predict->add_option("--step-overhead", args->step_overhead, "With --step: what the engine takes besides, e.g. 800us")
      ->needs(step);
  predict->add_option("--token-overhead", args->token_overhead, "The same for each token of the step, e.g. 2us")
      ->needs(step);
  predict->add_option("--expert-imbalance", args->expert_imbalance, kExpertImbalanceHelp)
      ->capture_default_str()
      ->needs(step);
  predict->add_flag("--explain", args->model.explain,
                    "Every kernel of every device, how it runs where that is known, and every pass");
  predict
      ->add_option("--by", args->model.by,
                   "What a line of the table is: kernel (of one work), kind (of kernel) or layer (of the model)")
      ->capture_default_str();
  predict->add_flag("--csv", args->model.csv, "One line a kernel, or as --by says");
  predict->add_option("--trace", args->model.trace, "Write the time line as a Chrome trace, for ui.perfetto.dev");
  kernels->excludes(model);
  for (const char* of_graphs : {"--batch",
                                "--seq",
                                "--dim",
                                "--phase",
                                "--kv-len",
                                "--attention",
                                "--train",
                                "--dp",
                                "--zero",
                                "--bucket-mb",
                                "--microbatches",
                                "--recompute",
                                "--sequence-parallel",
                                "--node",
                                "--nodes",
                                "--slice",
                                "--traced-batch",
                                "--passes",
                                "--explain",
                                "--by",
                                "--csv",
                                "--trace",
                                "--spec"}) {
    step->excludes(predict->get_option(of_graphs));
  }
  kernels->needs(out);
  out->needs(kernels);
  for (const char* of_models :
       {"--batch",     "--seq",          "--dim",    "--phase",   "--kv-len", "--dtype",     "--kv-dtype",
        "--mode",      "--attention",    "--tp",     "--pp",      "--ep",     "--dp",        "--zero",
        "--bucket-mb", "--microbatches", "--node",   "--nodes",   "--slice",  "--recompute", "--sequence-parallel",
        "--train",     "--optimiser",    "--passes", "--explain", "--by",     "--csv",       "--trace",
        "--step",      "--traced-batch"}) {
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
    if (!args->step.empty()) {
      const RunArgs& run = question.run;
      chosen = [step_args = PredictStepArgs{.model = {.model = question.model,
                                                      .profile_paths = question.profile_paths,
                                                      .step_overhead = args->step_overhead,
                                                      .token_overhead = args->token_overhead},
                                            .step = args->step,
                                            .devices = question.devices,
                                            .ranks = run.ranks,
                                            .dtype = run.dtype,
                                            .kv_dtype = run.kv_dtype,
                                            .expert_imbalance = args->expert_imbalance,
                                            .estimator = question.estimator},
                &globals] { return PredictStep(step_args, globals); };
      return;
    }
    chosen = [args, &globals] { return PredictModel(args->model, globals); };
  });
}

}  // namespace gpueta::cli
