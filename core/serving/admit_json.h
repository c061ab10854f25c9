// What commands about engines read: questions, steps and records as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/serving/engine_step.h"
#include "core/serving/fleet.h"

namespace gpueta {

struct AdmitQuestion {
  std::vector<std::string> devices;  // of the engines, by place
  FleetChange fleet;                 // engines, limits and replicas; no engine is there twice
  DescribedCandidate candidate;
};

// The grammar is the example in client/README.md; times end in _ms. A replica
// without a name is called "replicas[i]". Unknown fields are errors.
// INVALID_ARGUMENT naming the field.
absl::StatusOr<AdmitQuestion> ParseAdmitQuestion(std::string_view json);

// {"prefill": [{"new_tokens", "cached_tokens"}], "decode_context": [n…],
// "speculative_tokens"}, or in place of both lists "counts": {"prefill_tokens",
// "prefill_sequences", "cached_tokens", "decode_sequences", "context_tokens"}
// (StepCounts). Errors as above.
absl::StatusOr<EngineStep> ParseEngineStep(std::string_view json);

// A list of {"step": …, "latency_ms"}. Errors as above.
absl::StatusOr<std::vector<ObservedStep>> ParseStepRecords(std::string_view json);

}  // namespace gpueta
