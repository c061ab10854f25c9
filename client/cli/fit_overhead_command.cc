#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/serving_input.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/serving/admit_json.h"
#include "core/wire/serving_codec.h"

namespace gpueta::cli {
namespace {

struct FitOverheadArgs {
  std::string model;
  std::vector<std::string> profile_paths;
  std::string records;
  std::string device;
  Parallelism ranks;
  std::string dtype;
  std::string kv_dtype;
  double expert_imbalance = 1;
};

absl::StatusOr<OverheadFit> FitInProcess(const FitOverheadArgs& args, const Deployment& deployment,
                                         const std::vector<ObservedStep>& records, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(LocalEngines engines, LocalEngines::Open(args.model, args.profile_paths, globals));
  const auto model = engines.models().Model(engines.config(), deployment);
  if (!model.ok()) return Prefixed(model.status(), args.model);
  GPUETA_ASSIGN_OR_RETURN(const auto predictor, engines.snapshot().Find(args.device));
  return FitOverhead(**model, *predictor, records);
}

absl::StatusOr<OverheadFit> AskServer(const FitOverheadArgs& args, const Deployment& deployment,
                                      const std::vector<ObservedStep>& records, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(RemoteEngines remote, OpenRemote(args.model, globals));
  v1::FitEngineOverheadRequest request;
  request.set_model(remote.model);
  request.mutable_device()->set_slug(args.device);
  *request.mutable_deployment() = wire::Encode(deployment);
  for (const ObservedStep& record : records) {
    v1::StepRecord& out = *request.add_records();
    *out.mutable_step() = wire::Encode(record.step);
    out.set_latency_us(record.latency_us);
  }
  GPUETA_ASSIGN_OR_RETURN(const auto response, remote.client.FitEngineOverhead(request));
  return OverheadFit{wire::Decode(response.overhead()), response.mape_before(), response.mape_after()};
}

absl::Status Fit(const FitOverheadArgs& args, const Globals& globals) {
  Deployment deployment{.ranks = args.ranks, .expert_imbalance = args.expert_imbalance};
  GPUETA_ASSIGN_OR_RETURN(deployment.dtype, OptionalDType("--dtype", args.dtype));
  GPUETA_ASSIGN_OR_RETURN(deployment.kv_dtype, OptionalDType("--kv-dtype", args.kv_dtype));
  GPUETA_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(args.records));
  const auto records = ParseStepRecords(text);
  if (!records.ok()) return Prefixed(records.status(), args.records);
  const absl::StatusOr<OverheadFit> fit = globals.server.empty() ? FitInProcess(args, deployment, *records, globals)
                                                                 : AskServer(args, deployment, *records, globals);
  if (!fit.ok()) return Prefixed(fit.status(), args.records);
  if (globals.json) {
    fmt::print("{}\n", nlohmann::json{{"step_us", fit->overhead.step_us},
                                      {"token_us", fit->overhead.token_us},
                                      {"mape_before", fit->mape_before},
                                      {"mape_after", fit->mape_after}}
                           .dump(2));
    return absl::OkStatus();
  }
  fmt::print("--step-overhead {:.4g}us --token-overhead {:.4g}us\n", fit->overhead.step_us, fit->overhead.token_us);
  fmt::print("{} steps: off by {:.1f}% without it, by {:.1f}% with it\n", records->size(), 100 * fit->mape_before,
             100 * fit->mape_after);
  return absl::OkStatus();
}

}  // namespace

void AddFitOverhead(CLI::App& app, const Globals& globals, Chosen& chosen) {
  auto args = std::make_shared<FitOverheadArgs>();
  CLI::App* command = app.add_subcommand("fit-overhead", "What an LLM engine takes for a step besides its kernels");
  command->add_option("MODEL", args->model, "config.json of the model, or a registered model's name with --server")
      ->required();
  command
      ->add_option("--records", args->records,
                   "JSON: a list of {\"step\": …, \"latency_ms\"}, steps as lists or counts")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--device", args->device, "Slug")->required();
  command->add_option("--profile", args->profile_paths, "Profiles to use in place of --profiles")
      ->check(CLI::ExistingFile);
  command->add_option("--tp", args->ranks.tensor, "Tensor-parallel ranks")->check(CLI::PositiveNumber);
  command->add_option("--pp", args->ranks.pipeline, "Pipeline stages")->check(CLI::PositiveNumber);
  command->add_option("--ep", args->ranks.expert, "Expert-parallel ranks")->check(CLI::PositiveNumber);
  command->add_option("--expert-imbalance", args->expert_imbalance, kExpertImbalanceHelp)->capture_default_str();
  command->add_option("--dtype", args->dtype, "Of weights and products (default: the config's)");
  command->add_option("--kv-dtype", args->kv_dtype, "Of cached keys and values");
  command->callback([args, &globals, &chosen] { chosen = [args, &globals] { return Fit(*args, globals); }; });
}

}  // namespace gpueta::cli
