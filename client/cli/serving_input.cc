#include "client/cli/serving_input.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "client/cli/inputs.h"
#include "client/cli/model_input.h"
#include "core/base/errors.h"
#include "core/base/whole_file.h"

namespace gpueta::cli {
namespace {

constexpr std::size_t kMostTableBytes = std::size_t{1} << 30;

}  // namespace

absl::StatusOr<std::optional<DType>> OptionalDType(const char* option, const std::string& name) {
  if (name.empty()) return std::nullopt;
  const auto parsed = ParseDType(name);
  if (parsed.has_value()) return parsed;
  return InvalidArgument("{}: \"{}\" is not one of fp64, fp32, tf32, fp16, bf16, fp8, int8, int4", option, name);
}

absl::StatusOr<double> ParseDuration(std::string_view option, std::string_view text, bool may_be_zero) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const double us = unit == "s" ? 1e6 : unit == "ms" ? 1e3 : unit == "us" || unit == "µs" ? 1 : 0;
  if (error != std::errc() || us == 0 || !std::isfinite(value * us) || value < 0 || (value == 0 && !may_be_zero)) {
    return InvalidArgument("{}: \"{}\" is no duration such as 50ms, 1.5s or 800us", option, text.substr(0, 80));
  }
  return value * us;
}

std::string QuantileOf(const ServingArgs& args, const std::string& limit) {
  return limit.empty() ? "p50" : fmt::format("p{:g}", 100 * args.quantile);
}

void AddModelOptions(CLI::App& command, ServingModel& model) {
  command.add_option("MODEL", model.model, "config.json of the model, or a registered model's name with --server")
      ->required();
  command.add_option("--profile", model.profile_paths, "Profiles to use in place of --profiles")
      ->check(CLI::ExistingFile);
  command.add_option("--memory-share", model.memory_share, "Of the device's memory that the engine takes")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command.add_option("--step-overhead", model.step_overhead,
                     "What the engine takes for each step besides kernels, e.g. 800us (default: nothing)");
  command.add_option("--token-overhead", model.token_overhead, "The same for each token of a step, e.g. 2us");
}

void AddServingOptions(CLI::App& command, ServingArgs& args) {
  AddModelOptions(command, args.model);
  command.add_option("--dtype", args.dtype, "Of weights and products: bf16, fp8, int8, int4 (default: the config's)");
  command.add_option("--kv-dtype", args.kv_dtype, "Of cached keys and values");
  command.add_option("--pp", args.pp, "Pipeline stages")->check(CLI::PositiveNumber);
  command.add_option("--ep", args.ep, "Expert-parallel ranks")->check(CLI::PositiveNumber);
  command.add_option("--expert-imbalance", args.expert_imbalance, kExpertImbalanceHelp)->capture_default_str();
  auto* drafts = command.add_option("--speculative-tokens", args.speculation.tokens,
                                    "Draft tokens that each decoding sequence has checked in every step");
  auto* acceptance = command.add_option("--acceptance", args.speculation.acceptance,
                                        "Chance that a draft token is accepted if those before it were");
  drafts->needs(acceptance);
  acceptance->needs(drafts);
  command.add_option("--ttft", args.ttft, "Limit on the time to the first token, e.g. 500ms");
  command.add_option("--tpot", args.tpot, "Limit on the time per output token, e.g. 50ms");
  command.add_option("--quantile", args.quantile, "Share of cases that must meet the limits")
      ->check(CLI::Range(0.001, 0.999))
      ->capture_default_str();
  command.add_option("--token-budget", args.token_budget, "Most tokens of a step")
      ->check(CLI::Range(1, 1 << 18))
      ->capture_default_str();
  command.add_option("--max-sequences", args.max_sequences, "Most sequences at a time")
      ->check(CLI::Range(1, 1 << 14))
      ->capture_default_str();
}

absl::StatusOr<LatencyLimits> LimitsOf(const ServingArgs& args) {
  if (std::isnan(args.quantile)) return InvalidArgument("--quantile: is no number");
  LatencyLimits limits;
  if (!args.ttft.empty()) {
    GPUETA_ASSIGN_OR_RETURN(const double us, ParseDuration("--ttft", args.ttft));
    limits.ttft = LatencyLimit{.us = us, .quantile = args.quantile};
  }
  if (!args.tpot.empty()) {
    GPUETA_ASSIGN_OR_RETURN(const double us, ParseDuration("--tpot", args.tpot));
    limits.tpot = LatencyLimit{.us = us, .quantile = args.quantile};
  }
  return limits;
}

absl::StatusOr<EngineOverhead> OverheadOf(const ServingModel& model) {
  EngineOverhead overhead;
  if (!model.step_overhead.empty()) {
    GPUETA_ASSIGN_OR_RETURN(overhead.step_us, ParseDuration("--step-overhead", model.step_overhead, true));
  }
  if (!model.token_overhead.empty()) {
    GPUETA_ASSIGN_OR_RETURN(overhead.token_us, ParseDuration("--token-overhead", model.token_overhead, true));
  }
  return overhead;
}

absl::StatusOr<EngineSetup> SetupOf(const ServingArgs& args, std::int64_t tensor_ranks) {
  EngineSetup setup;
  setup.deployment.ranks = {.tensor = tensor_ranks, .expert = args.ep, .pipeline = args.pp};
  GPUETA_ASSIGN_OR_RETURN(setup.deployment.dtype, OptionalDType("--dtype", args.dtype));
  GPUETA_ASSIGN_OR_RETURN(setup.deployment.kv_dtype, OptionalDType("--kv-dtype", args.kv_dtype));
  setup.deployment.expert_imbalance = args.expert_imbalance;
  setup.limits.speculation = args.speculation;
  setup.limits.token_budget = args.token_budget;
  setup.limits.max_sequences = args.max_sequences;
  setup.memory_share = args.model.memory_share;
  GPUETA_ASSIGN_OR_RETURN(setup.overhead, OverheadOf(args.model));
  return setup;
}

absl::StatusOr<LocalEngines> LocalEngines::Open(const std::string& model, const std::vector<std::string>& profile_paths,
                                                const Globals& globals) {
  LocalEngines engines;
  auto json = ReadWholeFile(model);
  if (absl::IsNotFound(json.status())) {
    return NotFound("{}: no such file; give a config.json, or --server for a registered model", model);
  }
  GPUETA_RETURN_IF_ERROR(json.status());
  engines.config_ = {.id = model, .display_name = ModelDisplayName(model), .json = *std::move(json)};
  GPUETA_ASSIGN_OR_RETURN(engines.snapshot_, OpenSnapshot(globals, profile_paths));
  engines.models_ = std::make_unique<ServedModels>(kMostTableBytes);
  return engines;
}

absl::StatusOr<std::shared_ptr<const ServedModel>> LocalEngines::Serve(const std::string& device,
                                                                       const EngineSetup& setup, std::int64_t longest) {
  GPUETA_ASSIGN_OR_RETURN(const std::shared_ptr<const Predictor> predictor, snapshot_->Find(device));
  const auto model = models_->Model(config_, setup.deployment);
  if (!model.ok()) return Prefixed(model.status(), config_.id);
  auto served = models_->Serve(config_, device, *predictor, setup, longest);
  return served.ok() ? std::move(served) : Prefixed(served.status(), device);
}

absl::StatusOr<RemoteEngines> OpenRemote(const std::string& model, const Globals& globals) {
  GPUETA_ASSIGN_OR_RETURN(Client client, ConnectToServer(globals));
  if (!std::filesystem::exists(model)) return RemoteEngines{std::move(client), ResourceName(model)};
  v1::RegisterModelRequest request;
  GPUETA_ASSIGN_OR_RETURN(*request.mutable_config(), ReadWholeFile(model));
  request.set_display_name(ModelDisplayName(model));
  const auto registered = client.RegisterModel(request);
  if (!registered.ok()) return Prefixed(registered.status(), model);
  return RemoteEngines{std::move(client), registered->name()};
}

std::string ResourceName(const std::string& model) { return model.starts_with("models/") ? model : "models/" + model; }

}  // namespace gpueta::cli
