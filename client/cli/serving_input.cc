#include "client/cli/serving_input.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/base/errors.h"

namespace gpueta::cli {
namespace {

absl::StatusOr<std::optional<DType>> DTypeOf(const char* option, const std::string& name) {
  if (name.empty()) return std::nullopt;
  const auto parsed = ParseDType(name);
  if (parsed.has_value()) return parsed;
  return InvalidArgument("{}: \"{}\" is not one of fp64, fp32, tf32, fp16, bf16, fp8, int8, int4", option, name);
}

}  // namespace

absl::StatusOr<double> ParseDuration(std::string_view option, std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const double us = unit == "s" ? 1e6 : unit == "ms" ? 1e3 : unit == "us" || unit == "µs" ? 1 : 0;
  if (error != std::errc() || us == 0 || !std::isfinite(value) || !(value > 0)) {
    return InvalidArgument("{}: \"{}\" is no duration such as 50ms, 1.5s or 800us", option, text.substr(0, 80));
  }
  return value * us;
}

void AddModelOptions(CLI::App& command, ServingModel& model) {
  command.add_option("MODEL", model.path, "config.json of the model")->required()->check(CLI::ExistingFile);
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

absl::StatusOr<Deployment> DeploymentOf(const ServingArgs& args, std::int64_t tensor_ranks) {
  Deployment deployment{.ranks = {.tensor = tensor_ranks, .expert = args.ep, .pipeline = args.pp}};
  GPUETA_ASSIGN_OR_RETURN(deployment.dtype, DTypeOf("--dtype", args.dtype));
  GPUETA_ASSIGN_OR_RETURN(deployment.kv_dtype, DTypeOf("--kv-dtype", args.kv_dtype));
  return deployment;
}

std::int64_t GpusOf(const Parallelism& ranks) { return std::max(ranks.tensor, ranks.expert) * ranks.pipeline; }

absl::StatusOr<Served> Serve(const ServingModel& model, const std::string& config_json, const Snapshot& snapshot,
                             const std::string& device, const Deployment& deployment, const StepTableLimits& limits,
                             std::int64_t block_tokens) {
  EngineOverhead overhead;
  if (!model.step_overhead.empty()) {
    GPUETA_ASSIGN_OR_RETURN(overhead.step_us, ParseDuration("--step-overhead", model.step_overhead));
  }
  if (!model.token_overhead.empty()) {
    GPUETA_ASSIGN_OR_RETURN(overhead.token_us, ParseDuration("--token-overhead", model.token_overhead));
  }
  GPUETA_ASSIGN_OR_RETURN(const std::shared_ptr<const Predictor> predictor, snapshot.Find(device));
  absl::StatusOr<StepModel> compiled =
      StepModel::Compile(config_json, std::filesystem::path(model.path).parent_path().filename().string(), deployment);
  if (!compiled.ok()) return Prefixed(compiled.status(), model.path);
  GPUETA_ASSIGN_OR_RETURN(const CacheRoom room, RoomForCache(*compiled, predictor->spec().memory_gb, limits.tokens,
                                                             block_tokens, model.memory_share));
  absl::StatusOr<StepTable> table = StepTable::Build(*compiled, *predictor, limits, overhead);
  if (!table.ok()) return Prefixed(table.status(), device);
  return Served{device, GpusOf(deployment.ranks), *std::move(compiled), *std::move(table), room};
}

}  // namespace gpueta::cli
