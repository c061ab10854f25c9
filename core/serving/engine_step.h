// One forward pass of an LLM engine, as its scheduler put it together.
#pragma once

#include <cstdint>
#include <vector>

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

// A step that an engine measured.
struct ObservedStep {
  EngineStep step;
  double latency_us = 0;
};

}  // namespace gpueta
