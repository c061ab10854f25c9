#include "core/serving/served_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 18;     // of a step
constexpr std::int64_t kMostSequences = std::int64_t{1} << 14;  // that run
constexpr std::int64_t kMostContext = std::int64_t{1} << 26;
constexpr std::size_t kMostContexts = 1024;

absl::Status Within(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return FieldError(field, fmt::format("{} is not from {} to {}", value, low, high));
}

std::string KeyOf(const ModelConfig& config, const Deployment& deployment) {
  const auto name = [](const std::optional<DType>& dtype) {
    return dtype.has_value() ? Name(*dtype) : std::string_view("own");
  };
  return fmt::format("{} tp{} pp{} ep{} by {} {} kv {}", config.id, deployment.ranks.tensor, deployment.ranks.pipeline,
                     deployment.ranks.expert, deployment.expert_imbalance, name(deployment.dtype),
                     name(deployment.kv_dtype));
}

std::string KeyOf(const ModelConfig& config, const std::string& device, const EngineSetup& setup,
                  std::int64_t longest) {
  return fmt::format("{} {} {} {} {} {} drafts {} on {}", KeyOf(config, setup.deployment), setup.limits.token_budget,
                     setup.limits.max_sequences, setup.limits.block_tokens, setup.memory_share, TableContext(longest),
                     setup.limits.speculation.tokens, device);
}

}  // namespace

absl::Status Check(const EngineSetup& setup) {
  GPUETA_RETURN_IF_ERROR(Within("token_budget", setup.limits.token_budget, 1, kMostTokens));
  GPUETA_RETURN_IF_ERROR(Within("max_sequences", setup.limits.max_sequences, 1, kMostSequences));
  EngineLimits limits = setup.limits;
  if (limits.kv_blocks == 0) limits.kv_blocks = 1;  // to be found
  GPUETA_RETURN_IF_ERROR(Engine::Check(limits));
  if (!(setup.memory_share > 0 && setup.memory_share <= 1)) {
    return FieldError("memory_share", fmt::format("{} is not above 0 and up to 1", setup.memory_share));
  }
  return InField("overhead", Check(setup.overhead));
}

std::int64_t GpusOf(const Parallelism& ranks) { return ranks.DevicesOfStage() * ranks.pipeline; }

std::int64_t TableContext(std::int64_t longest) {
  constexpr std::int64_t kShortest = 8192;
  constexpr std::int64_t kLongest = std::int64_t{1} << 20;  // longer ones are extrapolated
  const auto room = static_cast<std::uint64_t>(2 * std::clamp(longest, kShortest, kLongest));
  return std::min(static_cast<std::int64_t>(std::bit_ceil(room)), kLongest);
}

absl::StatusOr<std::shared_ptr<const StepModel>> ServedModels::Model(const ModelConfig& config,
                                                                     const Deployment& deployment) {
  return models_.Get(KeyOf(config, deployment),
                     [&] { return StepModel::Compile(config.json, config.display_name, deployment); });
}

bool ServedModels::IsReady(const ModelConfig& config, const std::string& device, const EngineSetup& setup,
                           std::int64_t longest) {
  return served_.Find(KeyOf(config, device, setup, longest)) != nullptr;
}

absl::StatusOr<std::shared_ptr<const ServedModel>> ServedModels::Serve(const ModelConfig& config,
                                                                       const std::string& device,
                                                                       const Predictor& predictor,
                                                                       const EngineSetup& setup, std::int64_t longest) {
  GPUETA_RETURN_IF_ERROR(Check(setup));
  return served_.Get(KeyOf(config, device, setup, longest), [&]() -> absl::StatusOr<ServedModel> {
    GPUETA_ASSIGN_OR_RETURN(auto model, Model(config, setup.deployment));
    GPUETA_ASSIGN_OR_RETURN(const CacheRoom room,
                            RoomForCache(*model, predictor.spec().memory_gb, setup.limits.token_budget,
                                         setup.limits.block_tokens, setup.memory_share));
    GPUETA_ASSIGN_OR_RETURN(StepTable table, StepTable::Build(*model, predictor,
                                                              {.tokens = setup.limits.token_budget,
                                                               .sequences = setup.limits.max_sequences,
                                                               .context = TableContext(longest),
                                                               .speculative_tokens = setup.limits.speculation.tokens}));
    return ServedModel{GpusOf(setup.deployment.ranks), std::move(model), std::move(table), room};
  });
}

absl::Status Check(const MaxBatchQuestion& question) {
  if (question.contexts.size() > kMostContexts) {
    return FieldError("contexts", fmt::format("{} of them; {} are possible", question.contexts.size(), kMostContexts));
  }
  if (question.contexts.empty() && !question.load.has_value()) {
    return FieldError("contexts", "is empty; give the tokens of sequences, or a load");
  }
  for (std::size_t i = 0; i < question.contexts.size(); ++i) {
    GPUETA_RETURN_IF_ERROR(Within(fmt::format("contexts[{}]", i), question.contexts[i], 1, kMostContext));
  }
  if (question.load.has_value()) {
    GPUETA_RETURN_IF_ERROR(Within("load.input_tokens", question.load->input_tokens, 1, kMostContext / 4));
    GPUETA_RETURN_IF_ERROR(Within("load.output_tokens", question.load->output_tokens, 1, kMostContext / 4));
  }
  return InField("limits", Check(question.limits));
}

std::int64_t LongestOf(const MaxBatchQuestion& question) {
  std::int64_t longest = question.load.has_value() ? question.load->input_tokens + question.load->output_tokens : 1;
  for (const std::int64_t context : question.contexts) longest = std::max(longest, context);
  return longest;
}

absl::StatusOr<MaxBatchAnswer> MaxBatch(const ServedModel& served, const EngineSetup& setup,
                                        const MaxBatchQuestion& question) {
  GPUETA_RETURN_IF_ERROR(Check(question));
  const StepTable table = served.table.WithOverhead(setup.overhead);
  const LatencyLimits& limits = question.limits;
  const Speculation& speculation = setup.limits.speculation;
  MaxBatchAnswer answer;
  for (const std::int64_t context : question.contexts) {
    MaxBatchAnswer::Row row{context,
                            MaxDecodeBatch(*served.model, table, served.room, context, limits.tpot, speculation)};
    if (limits.tpot.has_value()) {
      row.prefill_tokens = MaxPrefillChunk(table, row.batch.sequences, context, *limits.tpot, speculation);
    }
    answer.rows.push_back(std::move(row));
  }
  if (question.load.has_value()) {
    GPUETA_ASSIGN_OR_RETURN(
        const std::vector<SteadyState> within,
        SteadyStatesWithin(*served.model, table, served.room, question.load->input_tokens, question.load->output_tokens,
                           setup.limits.token_budget, limits, speculation));
    answer.rate = MaxRequestRate(within);
  }
  return answer;
}

}  // namespace gpueta
