// A model as one kind of engine runs it on one kind of device, ready to ask.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/predict/predictor.h"
#include "core/serving/max_batch.h"
#include "core/serving/shared_cache.h"
#include "core/serving/step_table.h"

namespace gpueta {

// A Hugging Face config.json.
struct ModelConfig {
  std::string id;  // tells configs apart
  std::string display_name;
  std::string json;
};

// How an engine runs a model on its devices.
struct EngineSetup {
  Deployment deployment;
  EngineLimits limits;  // kv_blocks 0: as the device's memory allows
  double memory_share = kUsualMemoryShare;
  EngineOverhead overhead;

  friend bool operator==(const EngineSetup&, const EngineSetup&) = default;
};

// INVALID_ARGUMENT naming the field for limits, shares or times that cannot be.
// Bounded, so that its table is: 262,144 tokens of a step, 16,384 sequences.
absl::Status Check(const EngineSetup& setup);

// Devices of one replica: tensor or expert ranks times stages.
std::int64_t GpusOf(const Parallelism& ranks);

struct ServedModel {
  std::int64_t gpus = 1;
  std::shared_ptr<const StepModel> model;
  StepTable table;  // without overhead
  CacheRoom room;

  std::size_t size_bytes() const { return sizeof(*this) + table.size_bytes(); }
};

// Models and tables that were asked for. Safe to use from any thread.
class ServedModels {
 public:
  explicit ServedModels(std::size_t most_bytes) : models_(most_bytes / 4), served_(most_bytes - most_bytes / 4) {}

  // As StepModel::Compile.
  absl::StatusOr<std::shared_ptr<const StepModel>> Model(const ModelConfig& config, const Deployment& deployment);

  // With a table for contexts up to TableContext(longest). `device` names what
  // `predictor` answers for, and with what: another answer has another name.
  // Errors as Check, StepModel::Compile, RoomForCache and StepTable::Build.
  absl::StatusOr<std::shared_ptr<const ServedModel>> Serve(const ModelConfig& config, const std::string& device,
                                                           const Predictor& predictor, const EngineSetup& setup,
                                                           std::int64_t longest);
  // Whether Serve would find it made.
  bool IsReady(const ModelConfig& config, const std::string& device, const EngineSetup& setup, std::int64_t longest);

 private:
  SharedCache<StepModel> models_;
  SharedCache<ServedModel> served_;
};

// The contexts that a table has for sequences of up to `longest` tokens: a
// power of two with room for outputs, so that nearby questions share it.
std::int64_t TableContext(std::int64_t longest);

// Batches over contexts, and the largest rate of a load.
struct MaxBatchQuestion {
  std::vector<std::int64_t> contexts;  // tokens of each sequence
  struct Load {
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
  };
  std::optional<Load> load;
  LatencyLimits limits;  // e2e is not read
};
struct MaxBatchAnswer {
  struct Row {
    std::int64_t context = 0;
    LargestBatch batch;
    std::int64_t prefill_tokens = 0;  // that fit beside it; 0 without a limit
  };
  std::vector<Row> rows;
  std::optional<SteadyState> rate;  // sequences 0: none within the limits
};

// INVALID_ARGUMENT naming the field. Tokens a question is about at most:
// LongestOf.
absl::Status Check(const MaxBatchQuestion& question);
std::int64_t LongestOf(const MaxBatchQuestion& question);
absl::StatusOr<MaxBatchAnswer> MaxBatch(const ServedModel& served, const EngineSetup& setup,
                                        const MaxBatchQuestion& question);

}  // namespace gpueta
