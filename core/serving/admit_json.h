// What `gpueta admit` reads: replicas, a request and limits as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/serving/admit.h"
#include "core/serving/engine_metrics.h"
#include "core/serving/step_model.h"

namespace gpueta {

// A replica whose step table is still to be made.
struct DescribedReplica {
  Replica replica;  // without table; kv_blocks 0: as the device's memory allows
  std::string device;
  Deployment deployment;
  // Where metrics stand in for requests; the state is then made once kv_blocks
  // is known.
  std::optional<EngineMetrics> metrics;
};

struct AdmitQuestion {
  std::vector<DescribedReplica> replicas;
  Candidate candidate;
  LatencyLimits limits;
};

// The grammar is the example in client/README.md; times end in _ms. Unknown
// fields are errors. INVALID_ARGUMENT naming the field. Bounded: at most 4,096
// replicas and 65,536 requests.
absl::StatusOr<AdmitQuestion> ParseAdmitQuestion(std::string_view json);

}  // namespace gpueta
