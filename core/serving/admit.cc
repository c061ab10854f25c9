#include "core/serving/admit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kShownQuantile = 0.9;  // where there is no limit

double At(const LatencyForecast& forecast, const std::optional<LatencyLimit>& limit) {
  return forecast.Quantile(limit.has_value() ? limit->quantile : kShownQuantile);
}

double MarginOf(const LatencyForecast& forecast, const LatencyLimit& limit) {
  return (limit.us - forecast.Quantile(limit.quantile)) / limit.us;
}

// The smallest margin so far.
class Tightest {
 public:
  explicit Tightest(ReplicaDecision& decision) : decision_(decision) { decision_.margin = kInfinity; }
  void See(double margin, std::string binds) {
    if (margin >= decision_.margin) return;
    decision_.margin = margin;
    decision_.binds = std::move(binds);
  }

 private:
  ReplicaDecision& decision_;
};

absl::Status CheckLimit(std::string_view name, const std::optional<LatencyLimit>& limit) {
  if (!limit.has_value()) return absl::OkStatus();
  if (!(limit->us > 0) || !std::isfinite(limit->us)) {
    return FieldError(name, fmt::format("{} µs must be finite and above 0", limit->us));
  }
  if (!(limit->quantile > 0) || !(limit->quantile < 1)) {
    return FieldError(fmt::format("{}.quantile", name), fmt::format("{} is not between 0 and 1", limit->quantile));
  }
  return absl::OkStatus();
}

// The limit's quantile over all cases of all requests that are there: their
// own spread and the differences between them. Those that would more likely
// than not be late without the candidate are no reason to refuse it. Empty: no
// other.
std::optional<double> PooledQuantile(const std::vector<RequestForecast>& with,
                                     const std::vector<RequestForecast>& without,
                                     LatencyForecast RequestForecast::*which, const LatencyLimit& limit) {
  constexpr int kCases = 8;  // of each request, evenly spread
  double z[kCases];
  for (int k = 0; k < kCases; ++k) z[k] = NormalQuantile((k + 0.5) / kCases);
  const double z_of_limit = NormalQuantile(limit.quantile);
  std::vector<double> cases;
  for (std::size_t i = 0; i < without.size(); ++i) {
    const LatencyForecast& now = with[i].*which;
    if (now.empty() || (without[i].*which).Quantile(0.5, 0) > limit.us) continue;
    for (int k = 0; k < kCases; ++k) cases.push_back(now.Quantile((k + 0.5) / kCases, z[k]));
    // Beyond the last of them.
    cases.back() = std::max(cases.back(), now.Quantile(limit.quantile, z_of_limit));
  }
  if (cases.empty()) return std::nullopt;
  const auto at =
      std::min(static_cast<std::size_t>(limit.quantile * static_cast<double>(cases.size())), cases.size() - 1);
  std::ranges::nth_element(cases, cases.begin() + static_cast<std::ptrdiff_t>(at));
  return cases[at];
}

void JudgeOthers(const std::vector<RequestForecast>& with, const std::vector<RequestForecast>& without,
                 const LatencyLimits& limits, Tightest& tightest) {
  const auto see = [&](const char* name, LatencyForecast RequestForecast::*which,
                       const std::optional<LatencyLimit>& limit) {
    if (!limit.has_value()) return;
    const std::optional<double> us = PooledQuantile(with, without, which, *limit);
    if (us.has_value()) tightest.See((limit->us - *us) / limit->us, fmt::format("{} of the others", name));
  };
  see("ttft", &RequestForecast::ttft_us, limits.ttft);
  see("tpot", &RequestForecast::tpot_us, limits.tpot);
  see("e2e", &RequestForecast::e2e_us, limits.e2e);
}

bool InTime(const LatencyForecast& forecast, const std::optional<LatencyLimit>& limit) {
  return !limit.has_value() || forecast.empty() || forecast.Quantile(0.5, 0) <= limit->us;
}

// One replica with the candidate at the end of its queue.
absl::StatusOr<ReplicaDecision> Judge(const Replica& replica, const Request& request, const LatencyLimits& limits,
                                      const ScheduleOptions& options) {
  if (replica.table == nullptr) return FieldError("table", "is missing");
  ReplicaDecision decision;
  EngineState state = replica.state;
  state.waiting.push_back(request);
  GPUETA_ASSIGN_OR_RETURN(const auto with, Forecast(state, *replica.table, replica.lengths, options));
  const RequestForecast& own = with.back();
  decision.ttft_us = At(own.ttft_us, limits.ttft);
  decision.tpot_us = At(own.tpot_us, limits.tpot);
  decision.e2e_us = At(own.e2e_us, limits.e2e);
  Tightest tightest(decision);
  if (!std::isfinite(decision.e2e_us)) {
    tightest.See(-kInfinity, "kv_blocks");
    return decision;
  }
  if (limits.ttft.has_value() && !own.ttft_us.empty()) tightest.See(MarginOf(own.ttft_us, *limits.ttft), "ttft");
  if (limits.tpot.has_value()) tightest.See(MarginOf(own.tpot_us, *limits.tpot), "tpot");
  if (limits.e2e.has_value()) tightest.See(MarginOf(own.e2e_us, *limits.e2e), "e2e");
  const std::vector<RequestForecast> others(with.begin(), with.end() - 1);
  const bool all_in_time = std::ranges::all_of(others, [&](const RequestForecast& other) {
    return InTime(other.ttft_us, limits.ttft) && InTime(other.tpot_us, limits.tpot) && InTime(other.e2e_us, limits.e2e);
  });
  if (all_in_time) {  // and so they are without it
    JudgeOthers(others, others, limits, tightest);
  } else {
    GPUETA_ASSIGN_OR_RETURN(const auto without, Forecast(replica.state, *replica.table, replica.lengths, options));
    JudgeOthers(others, without, limits, tightest);
  }
  decision.admit = decision.margin >= 0;
  return decision;
}

Request AsRequest(const Candidate& candidate, std::int64_t cached_tokens) {
  Request request;
  request.sequence.prompt_tokens = candidate.prompt_tokens;
  request.sequence.cached_tokens =
      std::clamp<std::int64_t>(cached_tokens, 0, std::max<std::int64_t>(candidate.prompt_tokens, 0));
  request.sequence.output_tokens = candidate.output_tokens;
  request.since_arrival_us = candidate.since_arrival_us;
  return request;
}

// A decode replica behind the prefill replica that decided `before`: its first
// token comes from there, the rest from here.
absl::StatusOr<ReplicaDecision> JudgeDecode(const Replica& replica, const Candidate& candidate,
                                            const ReplicaDecision& before, const LatencyLimits& limits,
                                            const ScheduleOptions& options) {
  if (!std::isfinite(before.ttft_us)) return before;
  Request request = AsRequest(candidate, replica.cached_tokens);
  const double first_token_us = std::max(before.ttft_us - candidate.since_arrival_us, 0.0);  // from now
  request.transfer_us = first_token_us + replica.transfer_us_per_token * static_cast<double>(candidate.prompt_tokens);
  request.sequence.cached_tokens = candidate.prompt_tokens;
  request.sequence.generated_tokens = 1;
  request.since_first_token_us = -first_token_us;
  if (request.sequence.output_tokens == 1) request.sequence.output_tokens = 2;
  LatencyLimits own = limits;
  own.ttft.reset();
  GPUETA_ASSIGN_OR_RETURN(ReplicaDecision decision, Judge(replica, request, own, options));
  decision.ttft_us = before.ttft_us;
  if (before.margin < decision.margin) {
    decision.margin = before.margin;
    decision.binds = before.binds;
  }
  decision.admit = decision.margin >= 0;
  return decision;
}

// Pools of prefill and decode replicas need each other.
absl::Status CheckRoles(std::span<const Replica> replicas, std::span<const std::size_t> among) {
  std::optional<std::size_t> prefill;
  std::optional<std::size_t> decode;
  for (const std::size_t at : among) {
    if (replicas[at].role == Replica::Role::kPrefill) prefill = at;
    if (replicas[at].role == Replica::Role::kDecode) decode = at;
  }
  if (prefill.has_value() == decode.has_value()) return absl::OkStatus();
  return FieldError(fmt::format("replicas[{}].role", prefill.has_value() ? *prefill : *decode),
                    fmt::format("{} needs a {} replica among the replicas", prefill.has_value() ? "prefill" : "decode",
                                prefill.has_value() ? "decode" : "prefill"));
}

}  // namespace

absl::Status Check(const LatencyLimits& limits) {
  GPUETA_RETURN_IF_ERROR(CheckLimit("ttft", limits.ttft));
  GPUETA_RETURN_IF_ERROR(CheckLimit("tpot", limits.tpot));
  return CheckLimit("e2e", limits.e2e);
}

absl::StatusOr<AdmitResult> Admit(std::span<const Replica> replicas, const Candidate& candidate,
                                  const LatencyLimits& limits, const ScheduleOptions& options) {
  GPUETA_RETURN_IF_ERROR(InField("limits", Check(limits)));
  if (candidate.prompt_tokens < 1) {
    return FieldError("candidate.prompt_tokens", fmt::format("{} must be at least 1", candidate.prompt_tokens));
  }
  std::vector<std::size_t> among = candidate.among;
  if (among.empty()) {
    among.resize(replicas.size());
    std::iota(among.begin(), among.end(), std::size_t{0});
  }
  for (const std::size_t at : among) {
    if (at >= replicas.size()) return FieldError("candidate.among", fmt::format("{} is no replica", at));
  }
  GPUETA_RETURN_IF_ERROR(CheckRoles(replicas, among));
  const auto in_replica = [&](std::size_t i, const absl::Status& status) {
    return InField(fmt::format("replicas[{}]", among[i]), status);
  };
  AdmitResult result;
  result.replicas.resize(among.size());
  // Prompts first: a decode replica waits for the best of them.
  std::optional<std::size_t> prefill;
  for (std::size_t i = 0; i < among.size(); ++i) {
    const Replica& replica = replicas[among[i]];
    if (replica.role != Replica::Role::kPrefill) continue;
    Request request = AsRequest(candidate, replica.cached_tokens);
    request.sequence.output_tokens = 1;
    absl::StatusOr<ReplicaDecision> decision = Judge(replica, request, {.ttft = limits.ttft}, options);
    if (!decision.ok()) return in_replica(i, decision.status());
    result.replicas[i] = *std::move(decision);
    if (!prefill.has_value() || result.replicas[i].ttft_us < result.replicas[*prefill].ttft_us) prefill = i;
  }
  for (std::size_t i = 0; i < among.size(); ++i) {
    const Replica& replica = replicas[among[i]];
    if (replica.role == Replica::Role::kPrefill) continue;
    absl::StatusOr<ReplicaDecision> decision =
        replica.role == Replica::Role::kDecode
            ? JudgeDecode(replica, candidate, result.replicas[*prefill], limits, options)
            : Judge(replica, AsRequest(candidate, replica.cached_tokens), limits, options);
    if (!decision.ok()) return in_replica(i, decision.status());
    result.replicas[i] = *std::move(decision);
    if (!result.replicas[i].admit) continue;
    if (!result.recommended.has_value() || result.replicas[i].margin > result.replicas[*result.recommended].margin) {
      result.recommended = i;
    }
  }
  if (result.recommended.has_value() && replicas[among[*result.recommended]].role == Replica::Role::kDecode) {
    result.recommended_prefill = prefill;
  }
  return result;
}

}  // namespace gpueta
