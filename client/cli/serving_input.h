// What the commands about LLM engines are given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "core/predict/snapshot.h"
#include "core/serving/max_batch.h"

namespace gpueta::cli {

// A duration with its unit, in µs: "500ms", "50us", "1.5s". INVALID_ARGUMENT
// naming the option.
absl::StatusOr<double> ParseDuration(std::string_view option, std::string_view text);

struct ServingModel {
  std::string path;
  std::vector<std::string> profile_paths;
  double memory_share = kUsualMemoryShare;
  std::string step_overhead;  // empty: none
  std::string token_overhead;
};
void AddModelOptions(CLI::App& command, ServingModel& model);

struct ServingArgs {
  ServingModel model;
  std::string dtype;
  std::string kv_dtype;
  std::int64_t pp = 1;
  std::int64_t ep = 1;
  std::string ttft;
  std::string tpot;
  double quantile = 0.9;
  std::int64_t token_budget = 8192;
  std::int64_t max_sequences = 256;
};
void AddServingOptions(CLI::App& command, ServingArgs& args);
absl::StatusOr<Deployment> DeploymentOf(const ServingArgs& args, std::int64_t tensor_ranks);

absl::StatusOr<LatencyLimits> LimitsOf(const ServingArgs& args);

// Devices of one replica: tensor or expert ranks times stages.
std::int64_t GpusOf(const Parallelism& ranks);

// A model on one kind of device, ready to ask.
struct Served {
  std::string device;
  std::int64_t gpus = 1;
  StepModel model;
  StepTable table;  // contexts up to what was asked for
  CacheRoom room;
};
inline constexpr std::int64_t kBlockTokens = 16;  // of a block of the cache, where engines do not say
// INVALID_ARGUMENT naming the option that the model cannot take.
absl::StatusOr<Served> Serve(const ServingModel& model, const std::string& config_json, const Snapshot& snapshot,
                             const std::string& device, const Deployment& deployment, const StepTableLimits& limits,
                             std::int64_t block_tokens = kBlockTokens);

}  // namespace gpueta::cli
