#include "core/serving/max_batch.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace gpueta {
namespace {

double At(const StepLatency& latency, const std::optional<LatencyLimit>& limit) {
  return limit.has_value() ? latency.Quantile(limit->quantile) : latency.p50_us;
}

bool Meets(double us, const std::optional<LatencyLimit>& limit) { return !limit.has_value() || us <= limit->us; }

StepLatency DecodeStep(const StepTable& table, std::int64_t sequences, double context) {
  return table.Latency({{}, sequences, context, context});
}

// Sequences of `tokens` that the cache holds.
std::int64_t SequencesThatFit(const StepModel& model, const CacheRoom& room, std::int64_t tokens) {
  const double each = model.KvBytes(tokens);
  constexpr double kMost = 1e9;  // without a cache: a state space
  return static_cast<std::int64_t>(each > 0               ? std::min(room.cache_bytes / each, kMost)
                                   : room.cache_bytes > 0 ? kMost
                                                          : 0);
}

}  // namespace

absl::StatusOr<CacheRoom> RoomForCache(const StepModel& model, double memory_gb, std::int64_t token_budget,
                                       std::int64_t block_tokens, double share) {
  if (!(memory_gb > 0)) {
    return FailedPrecondition("the device's memory is not known; give a spec with memory_gb");
  }
  if (!(share > 0) || share > 1) return InvalidArgument("memory share: {} is not above 0 and up to 1", share);
  if (block_tokens < 1) return InvalidArgument("block_tokens: {} must be at least 1", block_tokens);
  CacheRoom room;
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  room.memory_bytes = memory_gb * kGiB;
  room.weight_bytes = static_cast<double>(model.weight_bytes());
  GPUETA_ASSIGN_OR_RETURN(const std::int64_t activations, model.ActivationBytes(token_budget));
  room.activation_bytes = static_cast<double>(activations);
  room.cache_bytes = std::max(0.0, room.memory_bytes * share - room.weight_bytes - room.activation_bytes);
  if (model.kv_bytes_per_token() > 0) {
    room.blocks = static_cast<std::int64_t>(room.cache_bytes / model.kv_bytes_per_token()) / block_tokens;
  }
  return room;
}

LargestBatch MaxDecodeBatch(const StepModel& model, const StepTable& table, const CacheRoom& room, std::int64_t context,
                            const std::optional<LatencyLimit>& tpot, const Speculation& speculation) {
  LargestBatch largest;
  const double each = speculation.TokensPerStep();
  const std::int64_t fit = SequencesThatFit(model, room, context);
  const std::int64_t most = std::min(fit, table.limits().sequences);
  largest.binds = fit < table.limits().sequences ? "memory" : "max_sequences";
  // Steps are not monotone in the batch: the largest one that meets the limit.
  for (std::int64_t sequences = most; sequences > 0; --sequences) {
    const StepLatency step = DecodeStep(table, sequences, static_cast<double>(context));
    if (!Meets(At(step, tpot) / each, tpot)) {
      largest.binds = "tpot";
      continue;
    }
    largest.sequences = sequences;
    largest.step = step;
    return largest;
  }
  return largest;
}

std::int64_t MaxPrefillChunk(const StepTable& table, std::int64_t decode_sequences, std::int64_t context,
                             const LatencyLimit& limit, const Speculation& speculation) {
  const double each = speculation.TokensPerStep();
  const auto c = static_cast<double>(context);
  const std::int64_t decode_tokens = decode_sequences * (1 + speculation.tokens);
  for (std::int64_t tokens = table.limits().tokens - decode_tokens; tokens > 0; --tokens) {
    const PrefillChunk chunk{tokens, 0};
    if (table.Latency({{&chunk, 1}, decode_sequences, c, c}).Quantile(limit.quantile) / each <= limit.us) return tokens;
  }
  return 0;
}

absl::StatusOr<SteadyState> SteadyStateOf(const StepTable& table, std::int64_t sequences, std::int64_t isl,
                                          std::int64_t osl, std::int64_t token_budget, const LatencyLimits& limits,
                                          const Speculation& speculation) {
  if (isl < 1 || osl < 1) return InvalidArgument("--isl {}, --osl {}: must be at least 1", isl, osl);
  if (sequences < 1) return InvalidArgument("sequences: {} must be at least 1", sequences);
  SteadyState state;
  state.sequences = sequences;
  const double each = speculation.TokensPerStep();  // of a sequence
  const std::int64_t room = token_budget - sequences * (1 + speculation.tokens);
  if (room < 1) return state;  // decoding alone fills every step
  const double context = static_cast<double>(isl) + static_cast<double>(osl) / 2;
  const std::int64_t chunk = std::min(isl, room);
  const double chunks = std::ceil(static_cast<double>(isl) / static_cast<double>(chunk));  // a prompt
  // Each step ends sequences/steps outputs, and as many prompts must come in.
  const double steps = std::max(static_cast<double>(osl) / each, 1.0);  // of an output
  const double chunks_a_step = static_cast<double>(sequences) / steps * chunks;
  const auto at_once = static_cast<std::int64_t>(std::max(1.0, std::ceil(chunks_a_step)));
  if (at_once * chunk > room) return state;  // prompts come faster than the budget allows
  const std::vector<PrefillChunk> prefill(static_cast<std::size_t>(at_once),
                                          PrefillChunk{chunk, static_cast<std::int64_t>((chunks - 1) / 2) * chunk});
  const StepLatency with = table.Latency({prefill, sequences, context, context});
  const StepLatency without = DecodeStep(table, sequences, context);
  const double share = chunks_a_step / static_cast<double>(at_once);  // of steps with prompts in them
  const double step_us = share * with.p50_us + (1 - share) * without.p50_us;
  state.requests_per_s = static_cast<double>(sequences) / (steps * step_us) * 1e6;
  state.output_tokens_per_s = state.requests_per_s * static_cast<double>(osl);
  // A gap between tokens is long where prompts share the step; a request's mean
  // over osl tokens is near the mean of all.
  const StepLatency mean{step_us / each, std::max(with.sigma, without.sigma)};
  state.tpot_us = At(mean, limits.tpot);
  // Half of the step that runs when it arrives, then its own chunks.
  const StepLatency first{step_us / 2 + chunks * with.p50_us, with.sigma};
  state.ttft_us = At(first, limits.ttft);
  return state;
}

absl::StatusOr<std::vector<SteadyState>> SteadyStatesWithin(const StepModel& model, const StepTable& table,
                                                            const CacheRoom& room, std::int64_t isl, std::int64_t osl,
                                                            std::int64_t token_budget, const LatencyLimits& limits,
                                                            const Speculation& speculation) {
  std::vector<SteadyState> within;
  if (isl < 1 || osl < 1) return InvalidArgument("--isl {}, --osl {}: must be at least 1", isl, osl);
  const std::int64_t most = std::min(SequencesThatFit(model, room, isl + osl), table.limits().sequences);
  for (std::int64_t sequences = 1; sequences <= most; ++sequences) {
    GPUETA_ASSIGN_OR_RETURN(const SteadyState state,
                            SteadyStateOf(table, sequences, isl, osl, token_budget, limits, speculation));
    if (state.requests_per_s > 0 && Meets(state.ttft_us, limits.ttft) && Meets(state.tpot_us, limits.tpot)) {
      within.push_back(state);
    }
  }
  return within;
}

SteadyState MaxRequestRate(std::span<const SteadyState> within) {
  SteadyState best;
  for (const SteadyState& state : within) {
    if (state.requests_per_s > best.requests_per_s) best = state;
  }
  return best;
}

}  // namespace gpueta
