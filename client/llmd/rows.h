// The JSON of the llm-d latency predictor's HTTP contract, as its routers send
// it (docs/serving.md names the version).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace gpueta::llmd {

// A request in front of a pod, as its metrics describe it.
struct Row {
  double kv_cache_percentage = 0;  // 0 to 1
  std::int64_t input_token_length = 0;
  std::int64_t num_request_waiting = 0;
  std::int64_t num_request_running = 0;
  std::int64_t num_tokens_generated = 0;
  double prefix_cache_score = 0;              // share of the prompt that is cached, 0 to 1
  std::string pod_type;                       // "", "prefill" or "decode"
  std::int64_t prefill_tokens_in_flight = 0;  // of the prompts that wait; 0: not known
};

// A row with what was then observed; 0: not observed.
struct Sample {
  Row row;
  double ttft_ms = 0;
  double tpot_ms = 0;
};

// INVALID_ARGUMENT naming the field. Fields that are not known are not read, as
// the contract's own server does.
absl::StatusOr<Row> ParseRow(const nlohmann::json& object);
absl::StatusOr<Sample> ParseSample(const nlohmann::json& object);

// The elements of `list` in {"list": […]}; INVALID_ARGUMENT where it is not
// there, or has none or more than 10,000.
absl::StatusOr<std::vector<nlohmann::json>> ParseList(std::string_view body, const char* list);

}  // namespace gpueta::llmd
