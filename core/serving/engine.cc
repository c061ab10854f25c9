#include "core/serving/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/errors.h"

namespace gpueta {

double Speculation::TokensPerStep() const {
  double sum = 1;
  double chance = 1;  // that this draft and all before it are accepted
  for (std::int64_t draft = 0; draft < tokens; ++draft) {
    chance *= acceptance;
    sum += chance;
  }
  return sum;
}

absl::Status Engine::Check(const EngineLimits& limits) {
  const auto field = [](std::string_view name, std::int64_t value) -> absl::Status {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    if (value >= 1 && value <= kMost) return absl::OkStatus();
    return FieldError(name, fmt::format("{} is not from 1 to {}", value, kMost));
  };
  GPUETA_RETURN_IF_ERROR(field("token_budget", limits.token_budget));
  GPUETA_RETURN_IF_ERROR(field("max_sequences", limits.max_sequences));
  GPUETA_RETURN_IF_ERROR(field("kv_blocks", limits.kv_blocks));
  GPUETA_RETURN_IF_ERROR(field("block_tokens", limits.block_tokens));
  const auto& [drafts, acceptance] = limits.speculation;
  constexpr std::int64_t kMostDrafts = 1024;
  if (drafts < 0 || drafts > kMostDrafts) {
    return FieldError("speculative_tokens", fmt::format("{} is not from 0 to {}", drafts, kMostDrafts));
  }
  if (!(acceptance >= 0 && acceptance <= 1))
    return FieldError("acceptance", fmt::format("{} is not from 0 to 1", acceptance));
  if (limits.token_budget > drafts) return absl::OkStatus();
  return FieldError("token_budget", fmt::format("{} does not hold one sequence's token and its {} draft tokens",
                                                limits.token_budget, drafts));
}

void Engine::Reset(const EngineLimits& limits) {
  limits_ = limits;
  tokens_per_step_ = limits.speculation.TokensPerStep();
  running_.clear();
  waiting_.clear();
  blocks_used_ = scheduled_tokens_ = decoding_ = context_sum_ = longest_context_ = 0;
}

void Engine::AddRunning(const Sequence& sequence, std::size_t id) {
  blocks_used_ += BlocksOf(sequence.computed_tokens);
  running_.push_back({sequence, id, 0});
}

void Engine::AddWaiting(const Sequence& sequence, std::size_t id) { waiting_.push_back({sequence, id, 0}); }

void Engine::SetOutputTokens(std::span<const std::int64_t> output_tokens) {
  for (Entry& entry : running_) entry.sequence.output_tokens = output_tokens[entry.id];
  for (Entry& entry : waiting_) entry.sequence.output_tokens = output_tokens[entry.id];
}

std::int64_t Engine::TokensOf(const Sequence& sequence) const {
  return sequence.decodes() ? 1 + limits_.speculation.tokens : sequence.known_tokens() - sequence.computed_tokens;
}

std::int64_t Engine::NewTokens(const Sequence& sequence, std::int64_t steps) const {
  return static_cast<std::int64_t>(static_cast<double>(steps) * tokens_per_step_ + sequence.token_share);
}

std::int64_t Engine::StepsLeft(const Sequence& sequence) const {
  const std::int64_t tokens = std::max<std::int64_t>(sequence.output_tokens - sequence.generated_tokens, 1);
  if (limits_.speculation.tokens == 0) return tokens;
  auto steps = static_cast<std::int64_t>((static_cast<double>(tokens) - sequence.token_share) / tokens_per_step_);
  steps = std::max<std::int64_t>(steps, 1);
  while (NewTokens(sequence, steps) < tokens) ++steps;  // rounded up, as NewTokens rounds
  return steps;
}

// Room for this many further tokens of a running sequence.
bool Engine::Grow(std::size_t at, std::int64_t tokens) {
  const std::int64_t has = running_[at].sequence.computed_tokens;
  const std::int64_t more = BlocksOf(has + tokens) - BlocksOf(has);
  if (blocks_used_ + more > limits_.kv_blocks) return false;
  blocks_used_ += more;
  running_[at].scheduled = tokens;
  return true;
}

// The last running sequence goes back to the front of the queue.
void Engine::Preempt() {
  Entry last = running_.back();
  running_.pop_back();
  blocks_used_ -= BlocksOf(last.sequence.computed_tokens);
  last.sequence.computed_tokens = 0;
  last.scheduled = 0;
  waiting_.push_front(last);
}

void Engine::Schedule() {
  std::int64_t budget = limits_.token_budget;
  bool preempted = false;
  for (Entry& entry : running_) entry.scheduled = 0;
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    const Sequence& sequence = running_[i].sequence;
    if (sequence.decodes() && TokensOf(sequence) > budget) continue;  // with all its drafts, or not in this step
    const std::int64_t tokens = std::min(TokensOf(sequence), budget);
    bool grown = Grow(i, tokens);
    while (!grown && running_.size() > i + 1) {
      Preempt();
      preempted = true;
      grown = Grow(i, tokens);
    }
    if (!grown) {  // it is the last one itself
      if (i > 0) Preempt();
      preempted = true;
      break;
    }
    budget -= tokens;
  }
  while (!preempted && budget > 0 && !waiting_.empty() &&
         static_cast<std::int64_t>(running_.size()) < limits_.max_sequences) {
    Entry next = waiting_.front();
    Sequence& sequence = next.sequence;
    // At least one token is computed, whatever is cached.
    sequence.computed_tokens = std::min(sequence.cached_tokens, sequence.known_tokens() - 1);
    const std::int64_t tokens = std::min(TokensOf(sequence), budget);
    const std::int64_t blocks = BlocksOf(sequence.computed_tokens + tokens);
    if (blocks_used_ + blocks > limits_.kv_blocks) break;
    waiting_.pop_front();
    blocks_used_ += blocks;
    next.scheduled = tokens;
    running_.push_back(next);
    budget -= tokens;
  }
  scheduled_tokens_ = limits_.token_budget - budget;
  decoding_ = context_sum_ = longest_context_ = 0;
  for (const Entry& entry : running_) {
    if (entry.scheduled == 0 || !entry.sequence.decodes()) continue;
    const std::int64_t context = entry.sequence.computed_tokens + 1;
    ++decoding_;
    context_sum_ += context;
    longest_context_ = std::max(longest_context_, context);
  }
}

void Engine::ChunksOf(std::vector<PrefillChunk>& chunks) const {
  chunks.clear();
  for (const Entry& entry : running_) {
    if (entry.scheduled == 0 || entry.sequence.decodes()) continue;
    chunks.push_back({entry.scheduled, entry.sequence.computed_tokens});
  }
}

double Engine::mean_context() const {
  return decoding_ == 0 ? 0 : static_cast<double>(context_sum_) / static_cast<double>(decoding_);
}

std::int64_t Engine::Repeats() const {
  if (decoding_ != static_cast<std::int64_t>(running_.size()) || decoding_ == 0) return 0;
  // Who waits could come in, unless sequences or blocks keep it out until one ends.
  if (!waiting_.empty() && decoding_ < limits_.max_sequences) {
    const Sequence& next = waiting_.front().sequence;
    const std::int64_t budget = limits_.token_budget - scheduled_tokens_;
    Sequence taken = next;
    taken.computed_tokens = std::min(next.cached_tokens, next.known_tokens() - 1);
    if (blocks_used_ + BlocksOf(taken.computed_tokens + std::min(TokensOf(taken), budget)) <= limits_.kv_blocks &&
        budget > 0) {
      return 0;
    }
  }
  std::int64_t repeats = std::numeric_limits<std::int64_t>::max();
  for (const Entry& entry : running_) {
    repeats = std::min(repeats, StepsLeft(entry.sequence) - 1);
  }
  // Blocks fill up evenly, one at most for each sequence and block of tokens.
  const std::int64_t free = std::max<std::int64_t>(limits_.kv_blocks - blocks_used_, 0);
  const auto fills_tokens = static_cast<double>(free / decoding_ * limits_.block_tokens);
  return std::clamp<std::int64_t>(repeats, 0, static_cast<std::int64_t>(fills_tokens / tokens_per_step_));
}

bool Engine::EndsOrRepeats(std::span<const std::int64_t> output_tokens) const {
  if (decoding_ == static_cast<std::int64_t>(running_.size())) return true;
  return std::ranges::any_of(running_, [&](const Entry& entry) {
    const Sequence& sequence = entry.sequence;
    const std::int64_t more = sequence.decodes() ? NewTokens(sequence, 1) : 1;
    return entry.scheduled > 0 && sequence.computed_tokens + entry.scheduled >= sequence.known_tokens() &&
           sequence.generated_tokens + more >= output_tokens[entry.id];
  });
}

bool Engine::OnlyDecodes() const {
  if (!waiting_.empty() || decoding_ != static_cast<std::int64_t>(running_.size())) return false;
  std::int64_t blocks = 0;
  for (const Entry& entry : running_) {
    // Drafts of the last step have their keys, too, and may reach past its end.
    blocks += BlocksOf(entry.sequence.prompt_tokens + std::max<std::int64_t>(entry.sequence.output_tokens - 1, 0) +
                       limits_.speculation.tokens);
  }
  return blocks <= limits_.kv_blocks;
}

void Engine::Complete(std::int64_t steps, std::vector<Event>& events) {
  events.clear();
  std::size_t kept = 0;
  for (Entry& entry : running_) {
    Sequence& sequence = entry.sequence;
    bool ended = false;
    if (entry.scheduled > 0) {
      const std::int64_t before = BlocksOf(sequence.computed_tokens + entry.scheduled);
      const bool first = sequence.generated_tokens == 0;
      std::int64_t more = 0;
      if (sequence.decodes()) {
        more = NewTokens(sequence, steps);
        sequence.token_share += static_cast<double>(steps) * tokens_per_step_ - static_cast<double>(more);
        sequence.computed_tokens += more;
      } else {
        sequence.computed_tokens += entry.scheduled;
        if (sequence.computed_tokens >= sequence.known_tokens()) more = 1;
      }
      blocks_used_ += BlocksOf(sequence.computed_tokens) - before;
      if (more > 0) {
        sequence.generated_tokens += more;
        ended = sequence.generated_tokens >= sequence.output_tokens;
        if (first || ended) events.push_back({entry.id, first, ended});
      }
      entry.scheduled = 0;
    }
    if (ended) {
      blocks_used_ -= BlocksOf(sequence.computed_tokens);
    } else {
      running_[kept++] = entry;
    }
  }
  running_.resize(kept);
  scheduled_tokens_ = 0;
}

}  // namespace gpueta
