// One forward pass of an LLM engine, as its scheduler put it together.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta {

// A part of one prompt.
struct PrefillChunk {
  std::int64_t new_tokens = 0;     // computed in this step
  std::int64_t cached_tokens = 0;  // of the same sequence, computed before or found in the prefix cache

  friend bool operator==(const PrefillChunk&, const PrefillChunk&) = default;
};

struct EngineStep {
  std::vector<PrefillChunk> prefill;
  // One entry a decoding sequence: the tokens that its new token sees, itself
  // included.
  std::vector<std::int64_t> decode_context;
  // Draft tokens that each decoding sequence has checked in this step besides
  // its new one.
  std::int64_t speculative_tokens = 0;

  std::int64_t prefill_tokens() const {
    std::int64_t sum = 0;
    for (const PrefillChunk& chunk : prefill) sum += chunk.new_tokens;
    return sum;
  }
  std::int64_t decode_tokens() const {
    return static_cast<std::int64_t>(decode_context.size()) * (1 + speculative_tokens);
  }
  // Rows that every product but the head's has.
  std::int64_t tokens() const { return prefill_tokens() + decode_tokens(); }
  // Rows of logits: one for each chunk, as engines compute them, and one for
  // each token of a decoding sequence.
  std::int64_t logit_rows() const { return static_cast<std::int64_t>(prefill.size()) + decode_tokens(); }
};

// A step as engines count it in their records.
struct StepCounts {
  std::int64_t prefill_tokens = 0;     // scheduled, of all prompts together
  std::int64_t prefill_sequences = 1;  // that have them
  std::int64_t cached_tokens = 0;      // of these sequences together, computed before
  std::int64_t decode_sequences = 0;
  std::int64_t context_tokens = 0;  // of the decoding sequences together, their new tokens included
};

// A step with these counts: chunks as long as each other, decoding sequences
// with the same contexts, to the token. INVALID_ARGUMENT naming the field.
absl::StatusOr<EngineStep> StepOf(const StepCounts& counts, std::int64_t speculative_tokens = 0);

// A step that an engine measured.
struct ObservedStep {
  EngineStep step;
  double latency_us = 0;
};

}  // namespace gpueta
