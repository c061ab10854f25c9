// What an engine with continuous batching runs next, as vLLM (V1) and SGLang
// with chunked prefill schedule it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/serving/engine_step.h"

namespace gpueta {

// Draft tokens, guessed by something cheaper, that each decoding sequence has
// checked in every step besides its new one.
struct Speculation {
  std::int64_t tokens = 0;
  // The chance that a draft token is accepted if those before it were, the same
  // for all of them.
  double acceptance = 0;

  // New tokens of a sequence in a step, on average: 1 + a + … + a^tokens
  // (Leviathan et al. 2023, equation 1).
  double TokensPerStep() const;
  friend bool operator==(const Speculation&, const Speculation&) = default;
};

struct EngineLimits {
  std::int64_t token_budget = 8192;  // of a step: max_num_batched_tokens
  std::int64_t max_sequences = 256;  // that run: max_num_seqs
  std::int64_t kv_blocks = 0;        // of the cache
  std::int64_t block_tokens = 16;
  Speculation speculation;

  friend bool operator==(const EngineLimits&, const EngineLimits&) = default;
};

// A request inside an engine.
struct Sequence {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;     // of the prompt, in the prefix cache: not computed again
  std::int64_t computed_tokens = 0;   // whose keys and values exist
  std::int64_t generated_tokens = 0;  // the first comes with the prompt's last chunk
  std::int64_t output_tokens = 0;     // when it ends; unknown to the scheduler
  double token_share = 0;             // of the next token, what steps that yield no whole number of them have left

  std::int64_t known_tokens() const { return prompt_tokens + generated_tokens; }
  bool decodes() const { return generated_tokens > 0 && computed_tokens + 1 == known_tokens(); }
  friend bool operator==(const Sequence&, const Sequence&) = default;
};

// Running sequences first, in order: a token for each that decodes, as much of
// the prompt as the budget leaves for the others; when blocks run out, the last
// one is preempted and computed anew later. Then waiting ones, first come first
// served, while budget, sequences and blocks allow. Steps with draft tokens yield
// their average number of new ones: of whole tokens, what is left is carried to
// the next step. Deterministic; no clock.
class Engine {
 public:
  // INVALID_ARGUMENT naming the field for limits below 1, draft tokens that are
  // not from 0 to 1024, and an acceptance that is not from 0 to 1.
  static absl::Status Check(const EngineLimits& limits);

  explicit Engine(const EngineLimits& limits) : limits_(limits), tokens_per_step_(limits.speculation.TokensPerStep()) {}
  // Empty again, with other limits; keeps its memory.
  void Reset(const EngineLimits& limits);

  const EngineLimits& limits() const { return limits_; }
  struct Entry {
    Sequence sequence;
    std::size_t id = 0;          // the caller's
    std::int64_t scheduled = 0;  // tokens of it in the step at hand
  };
  const std::vector<Entry>& running() const { return running_; }
  const std::deque<Entry>& waiting() const { return waiting_; }
  bool idle() const { return running_.empty() && waiting_.empty(); }
  std::int64_t blocks_used() const { return blocks_used_; }

  void AddRunning(const Sequence& sequence, std::size_t id);
  void AddWaiting(const Sequence& sequence, std::size_t id);

  // Of each sequence by its id.
  void SetOutputTokens(std::span<const std::int64_t> output_tokens);

  // Chooses the next step; afterwards entries of running() say how much of them
  // is in it. Nothing is scheduled where idle, or where the first sequence
  // alone needs more blocks than there are.
  void Schedule();
  // How many further steps like the scheduled one come after it, if no
  // sequence arrives: all decode, none ends, no block runs out.
  std::int64_t Repeats() const;
  // Whether the scheduled step ends a sequence if these are the output tokens by
  // id, or others like it follow it, which Repeats() counts.
  bool EndsOrRepeats(std::span<const std::int64_t> output_tokens) const;
  // Whether nothing is left but to decode what is scheduled until it ends, if no
  // sequence arrives: none waits or computes its prompt, and blocks last for all.
  bool OnlyDecodes() const;
  // Ends `steps` steps like the scheduled one. Sequences that computed all they
  // knew have a new token; those with all their output leave.
  struct Event {
    std::size_t id = 0;
    bool first_token = false;
    bool ended = false;
  };
  void Complete(std::int64_t steps, std::vector<Event>& events);

  // The step at hand.
  bool anything_scheduled() const { return scheduled_tokens_ > 0; }
  void ChunksOf(std::vector<PrefillChunk>& chunks) const;
  std::int64_t decoding() const { return decoding_; }
  double mean_context() const;  // of those that decode
  std::int64_t longest_context() const { return longest_context_; }
  // By how much the contexts of decoding sequences grow in a step.
  double tokens_per_step() const { return tokens_per_step_; }
  // Steps until a sequence that decodes has all its output.
  std::int64_t StepsLeft(const Sequence& sequence) const;

 private:
  std::int64_t BlocksOf(std::int64_t tokens) const {
    return (tokens + limits_.block_tokens - 1) / limits_.block_tokens;
  }
  // What a sequence has in the next step: its new token with drafts, or what is
  // left of its prompt.
  std::int64_t TokensOf(const Sequence& sequence) const;
  // New tokens of a sequence that decodes, after so many steps.
  std::int64_t NewTokens(const Sequence& sequence, std::int64_t steps) const;
  bool Grow(std::size_t at, std::int64_t tokens);
  void Preempt();

  EngineLimits limits_;
  double tokens_per_step_ = 1;
  std::vector<Entry> running_;
  std::deque<Entry> waiting_;
  std::int64_t blocks_used_ = 0;
  std::int64_t scheduled_tokens_ = 0;
  std::int64_t decoding_ = 0;
  std::int64_t context_sum_ = 0;
  std::int64_t longest_context_ = 0;
};

}  // namespace gpueta
