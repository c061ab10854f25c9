#include "core/serving/engine_step.h"

#include <algorithm>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::int64_t kMostSequences = 1 << 16;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 42;  // of as many sequences of 2^26

absl::Status Within(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return FieldError(field, fmt::format("{} is not from {} to {}", value, low, high));
}

// The share of part i where `total` is dealt out to `parts`, the first ones
// having what is left over.
std::int64_t ShareOf(std::int64_t total, std::int64_t parts, std::int64_t i) {
  return total / parts + (i < total % parts ? 1 : 0);
}

}  // namespace

absl::StatusOr<EngineStep> StepOf(const StepCounts& counts, std::int64_t speculative_tokens) {
  EngineStep step{.prefill = {}, .decode_context = {}, .speculative_tokens = speculative_tokens};
  GPUETA_RETURN_IF_ERROR(Within("prefill_tokens", counts.prefill_tokens, 0, kMostTokens));
  if (counts.prefill_tokens > 0) {
    GPUETA_RETURN_IF_ERROR(
        Within("prefill_sequences", counts.prefill_sequences, 1, std::min(kMostSequences, counts.prefill_tokens)));
  }
  const std::int64_t chunks = counts.prefill_tokens > 0 ? counts.prefill_sequences : 0;
  GPUETA_RETURN_IF_ERROR(Within("cached_tokens", counts.cached_tokens, 0, chunks > 0 ? kMostTokens : 0));
  GPUETA_RETURN_IF_ERROR(Within("decode_sequences", counts.decode_sequences, 0, kMostSequences));
  const std::int64_t decoding = counts.decode_sequences;
  GPUETA_RETURN_IF_ERROR(Within("context_tokens", counts.context_tokens, decoding, decoding > 0 ? kMostTokens : 0));
  for (std::int64_t i = 0; i < chunks; ++i) {
    step.prefill.push_back({ShareOf(counts.prefill_tokens, chunks, i), ShareOf(counts.cached_tokens, chunks, i)});
  }
  for (std::int64_t i = 0; i < decoding; ++i) {
    step.decode_context.push_back(ShareOf(counts.context_tokens, decoding, i));
  }
  return step;
}

}  // namespace gpueta
