// An engine's state where only its metrics are known.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/serving/schedule.h"

namespace gpueta {

// What engines export: vLLM's num_requests_running, num_requests_waiting and
// kv_cache_usage_perc, SGLang's num_running_reqs, num_queue_reqs, token_usage.
struct EngineMetrics {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  double kv_usage = 0;  // share of blocks in use, 0 to 1
  double mean_prompt_tokens = 1024;
  double mean_output_tokens = 256;
};

// INVALID_ARGUMENT naming the field.
absl::Status Check(const EngineMetrics& metrics);

// A state with these metrics: the running requests decode, share the cache
// evenly and are spread evenly over their outputs; those that wait have prompts
// of the mean. Errors as Check.
absl::StatusOr<EngineState> StateFrom(const EngineMetrics& metrics, const EngineLimits& limits);

}  // namespace gpueta
