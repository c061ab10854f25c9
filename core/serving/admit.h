// Whether a request will meet its limits, replica by replica.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/serving/schedule.h"

namespace gpueta {

struct LatencyLimit {
  double us = 0;
  double quantile = 0.9;  // of cases that must stay at or below
};

struct LatencyLimits {
  std::optional<LatencyLimit> ttft = std::nullopt;
  std::optional<LatencyLimit> tpot = std::nullopt;
  std::optional<LatencyLimit> e2e = std::nullopt;
};

// INVALID_ARGUMENT naming the field, e.g. "ttft.quantile".
absl::Status Check(const LatencyLimits& limits);

// One engine that could take the request.
struct Replica {
  enum class Role : std::uint8_t {
    kBoth,
    kPrefill,  // computes prompts and hands their keys and values on with the first token
    kDecode,   // takes them over: what waits in it has its prompt computed
  };
  std::string name;
  Role role = Role::kBoth;
  EngineState state;
  const StepTable* table = nullptr;  // of its model, device and deployment; outlives the call
  OutputLengths lengths = OutputLengths::Geometric(256);
  // Of the candidate's prompt, in this replica's prefix cache.
  std::int64_t cached_tokens = 0;
  // From a prefill replica to this one, for each token of the prompt.
  double transfer_us_per_token = 0;
};

struct Candidate {
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;  // 0: unknown
  double since_arrival_us = 0;
  // Places of the replicas that may take it; empty: all.
  std::vector<std::size_t> among = {};
};

struct ReplicaDecision {
  bool admit = false;
  // Of the candidate, at the quantile of its limit, or p90 where it has none.
  double ttft_us = 0;
  double tpot_us = 0;
  double e2e_us = 0;
  // (limit − predicted) / limit, the smallest over the candidate's limits and
  // those of the others: requests that are there already, whose quantile is
  // taken over all of them together. At least 0 where it is admitted; minus
  // infinity where it never fits.
  double margin = 0;
  std::string binds;  // which limit that is: "ttft", "tpot", "e2e", "kv_blocks", "tpot of the others"…; empty: no limit
};

struct AdmitResult {
  std::vector<ReplicaDecision> replicas;  // in the order given, or that of Candidate::among
  // Of these the one that admits with the largest margin, and where prompts have
  // pools of their own the one that computes it; unset: none admits.
  std::optional<std::size_t> recommended;
  std::optional<std::size_t> recommended_prefill;
};

// The candidate joins the end of each replica's queue in turn. Requests that
// are there already have the same limits, as a group; those that would more
// likely than not miss them without the candidate do not count. With prefill
// replicas among them, a decode replica is judged behind the prefill replica
// with the smallest TTFT; its margin is the smaller of both. INVALID_ARGUMENT
// naming replica and field, also where one of the two pools is missing.
absl::StatusOr<AdmitResult> Admit(std::span<const Replica> replicas, const Candidate& candidate,
                                  const LatencyLimits& limits, const ScheduleOptions& options = {});

}  // namespace gpueta
