// What the commands about LLM engines are given, and how they ask.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "core/predict/snapshot.h"
#include "core/serving/served_model.h"
#include "gpueta/client.h"

namespace gpueta::cli {

// A duration with its unit, in µs: "500ms", "50us", "1.5s". INVALID_ARGUMENT
// naming the option.
absl::StatusOr<double> ParseDuration(std::string_view option, std::string_view text, bool may_be_zero = false);

struct ServingModel {
  std::string model;  // a config.json, or with --server a registered model's name
  std::vector<std::string> profile_paths;
  double memory_share = kUsualMemoryShare;
  std::string step_overhead;  // empty: none
  std::string token_overhead;
};
void AddModelOptions(CLI::App& command, ServingModel& model);
absl::StatusOr<EngineOverhead> OverheadOf(const ServingModel& model);

struct ServingArgs {
  ServingModel model;
  std::string dtype;
  std::string kv_dtype;
  std::int64_t pp = 1;
  std::int64_t ep = 1;
  double expert_imbalance = 1;
  Speculation speculation;
  std::string ttft;
  std::string tpot;
  double quantile = 0.9;
  std::int64_t token_budget = 8192;
  std::int64_t max_sequences = 256;
};
inline constexpr const char* kExpertImbalanceHelp =
    "Load of the busiest expert rank over the mean of all (1: as in what was measured)";

// Of which share a latency is told whose limit is the option of this text: "p90"; the
// median where there is no limit.
std::string QuantileOf(const ServingArgs& args, const std::string& limit);

void AddServingOptions(CLI::App& command, ServingArgs& args);
absl::StatusOr<EngineSetup> SetupOf(const ServingArgs& args, std::int64_t tensor_ranks);
absl::StatusOr<LatencyLimits> LimitsOf(const ServingArgs& args);

// "fp8" to the type, "" to none. INVALID_ARGUMENT naming the option.
absl::StatusOr<std::optional<DType>> OptionalDType(const char* option, const std::string& name);

// A model, its devices and tables in this process.
class LocalEngines {
 public:
  // NOT_FOUND for a missing config.
  static absl::StatusOr<LocalEngines> Open(const std::string& model, const std::vector<std::string>& profile_paths,
                                           const Globals& globals);

  const ModelConfig& config() const { return config_; }
  const Snapshot& snapshot() const { return *snapshot_; }
  ServedModels& models() { return *models_; }
  // Errors name the device or the model's file. Safe to use from any thread.
  absl::StatusOr<std::shared_ptr<const ServedModel>> Serve(const std::string& device, const EngineSetup& setup,
                                                           std::int64_t longest);

 private:
  ModelConfig config_;
  std::shared_ptr<const Snapshot> snapshot_;
  std::unique_ptr<ServedModels> models_;
};

// A server's engines by the resource name of their model.
struct RemoteEngines {
  Client client;
  std::string model;
};
// A file is registered with the server, which keeps it; anything else is the
// name of a model that is.
absl::StatusOr<RemoteEngines> OpenRemote(const std::string& model, const Globals& globals);

// "models/NAME" of a name with or without the prefix.
std::string ResourceName(const std::string& model);

}  // namespace gpueta::cli
