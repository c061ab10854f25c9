#include "core/serving/engine_metrics.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace gpueta {

namespace {

constexpr double kMostTokens = 1 << 24;

}  // namespace

absl::Status Check(const EngineMetrics& metrics) {
  constexpr std::int64_t kMostRequests = 1 << 15;
  for (const auto& [name, count] : {std::pair("running", metrics.running), std::pair("waiting", metrics.waiting)}) {
    if (count < 0 || count > kMostRequests) {
      return FieldError(name, fmt::format("{} is not from 0 to {}", count, kMostRequests));
    }
  }
  if (!(metrics.kv_usage >= 0 && metrics.kv_usage <= 1)) {
    return FieldError("kv_usage", fmt::format("{} is not from 0 to 1", metrics.kv_usage));
  }
  for (const auto& [name, mean] : {std::pair("mean_prompt_tokens", metrics.mean_prompt_tokens),
                                   std::pair("mean_output_tokens", metrics.mean_output_tokens)}) {
    if (!(mean >= 1 && mean <= kMostTokens))
      return FieldError(name, fmt::format("{} is not from 1 to {}", mean, kMostTokens));
  }
  return absl::OkStatus();
}

absl::StatusOr<EngineState> StateFrom(const EngineMetrics& metrics, const EngineLimits& limits) {
  GPUETA_RETURN_IF_ERROR(InField("limits", Engine::Check(limits)));
  GPUETA_RETURN_IF_ERROR(Check(metrics));
  EngineState state;
  state.limits = limits;
  const double used_tokens =
      metrics.kv_usage * static_cast<double>(limits.kv_blocks) * static_cast<double>(limits.block_tokens);
  const double each =
      metrics.running > 0 ? std::min(used_tokens / static_cast<double>(metrics.running), kMostTokens) : 0;
  for (std::int64_t i = 0; i < metrics.running; ++i) {
    const double done = (static_cast<double>(i) + 0.5) / static_cast<double>(metrics.running);
    Sequence sequence;
    sequence.generated_tokens = std::max<std::int64_t>(1, std::llround(done * metrics.mean_output_tokens));
    sequence.prompt_tokens = std::max<std::int64_t>(1, std::llround(each) - sequence.generated_tokens + 1);
    sequence.computed_tokens = sequence.known_tokens() - 1;
    state.running.push_back({.sequence = sequence});
  }
  Sequence waiting;
  waiting.prompt_tokens = std::max<std::int64_t>(1, std::llround(metrics.mean_prompt_tokens));
  state.waiting.assign(static_cast<std::size_t>(metrics.waiting), {.sequence = waiting});
  return state;
}

}  // namespace gpueta
