// The largest load that stays within limits: the inverse of a prediction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/spec.h"
#include "core/serving/admit.h"
#include "core/serving/step_model.h"
#include "core/serving/step_table.h"

namespace gpueta {

// What a device's memory leaves for the cache.
struct CacheRoom {
  double memory_bytes = 0;
  double weight_bytes = 0;
  double activation_bytes = 0;
  double cache_bytes = 0;  // what is left; 0: the model does not fit
  std::int64_t blocks = 0;
};

// Engines use this share of the memory unless told otherwise.
inline constexpr double kUsualMemoryShare = 0.9;

// Of one device of `memory_gb` GB (2^30 bytes, as cards are sold), an engine taking `share` of it
// for weights, activations of a step of `token_budget` and cache; blocks of a
// sequence that no window shortens. FAILED_PRECONDITION for an unknown memory.
absl::StatusOr<CacheRoom> RoomForCache(const StepModel& model, double memory_gb, std::int64_t token_budget,
                                       std::int64_t block_tokens = 16, double share = kUsualMemoryShare);

struct LargestBatch {
  std::int64_t sequences = 0;  // 0: not even one
  StepLatency step;            // of that batch
  std::string binds;           // "tpot", "memory" or "max_sequences"
};

// With draft tokens a step yields several tokens of a sequence: `speculation` is
// the one that the table was made for.

// Sequences that decode together at `context` tokens each: as many as the step
// by its tokens of a sequence meets `tpot` (none: any) and the cache holds; at
// most the table's limit.
LargestBatch MaxDecodeBatch(const StepModel& model, const StepTable& table, const CacheRoom& room, std::int64_t context,
                            const std::optional<LatencyLimit>& tpot, const Speculation& speculation = {});

// New prompt tokens that a step may take on top of `decode_sequences` at
// `context`, with `limit` on the step by its tokens of a sequence; 0: none.
std::int64_t MaxPrefillChunk(const StepTable& table, std::int64_t decode_sequences, std::int64_t context,
                             const LatencyLimit& limit, const Speculation& speculation = {});

// A replica in steady state: `sequences` decode at any time, prompts of `isl`
// tokens come in as fast as outputs of `osl` end, and chunks of them run within
// the decode steps.
struct SteadyState {
  std::int64_t sequences = 0;
  double requests_per_s = 0;
  double output_tokens_per_s = 0;
  double ttft_us = 0;  // at the limit's quantile, or p50 where there is none; a free slot assumed
  double tpot_us = 0;
};

// INVALID_ARGUMENT for lengths or a load that is below 1.
absl::StatusOr<SteadyState> SteadyStateOf(const StepTable& table, std::int64_t sequences, std::int64_t isl,
                                          std::int64_t osl, std::int64_t token_budget, const LatencyLimits& limits,
                                          const Speculation& speculation = {});

// Those within the limits and the cache, for every number of sequences. There
// is no limit on e2e here.
absl::StatusOr<std::vector<SteadyState>> SteadyStatesWithin(const StepModel& model, const StepTable& table,
                                                            const CacheRoom& room, std::int64_t isl, std::int64_t osl,
                                                            std::int64_t token_budget, const LatencyLimits& limits,
                                                            const Speculation& speculation = {});

// The one of them with the largest rate; sequences is 0 where there is none.
SteadyState MaxRequestRate(std::span<const SteadyState> within);

}  // namespace gpueta
