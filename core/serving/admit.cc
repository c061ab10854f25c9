#include "core/serving/admit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kShownQuantile = 0.9;  // where there is no limit

// A limit and where it is looked at.
struct Limit {
  const char* name;  // for people
  const char* of_others;
  LatencyForecast RequestForecast::*which;
  double ReplicaDecision::*shown;
  std::optional<double> us;
  QuantilePoint at;

  bool Passed(const RequestForecast& forecast) const { return us.has_value() && (forecast.*which).Median() > *us; }
};

// Everything that a call asks of all its replicas.
struct Question {
  Question(const LatencyLimits& limits, const ScheduleOptions& options) : with(options), without(options) {
    const auto add = [&](const char* name, const char* of_others, LatencyForecast RequestForecast::*which,
                         double ReplicaDecision::*shown, const std::optional<LatencyLimit>& limit) {
      all.push_back({name, of_others, which, shown, limit.has_value() ? std::optional(limit->us) : std::nullopt,
                     QuantilePoint::At(limit.has_value() ? limit->quantile : kShownQuantile)});
    };
    add("ttft", "ttft of the others", &RequestForecast::ttft_us, &ReplicaDecision::ttft_us, limits.ttft);
    add("tpot", "tpot of the others", &RequestForecast::tpot_us, &ReplicaDecision::tpot_us, limits.tpot);
    add("e2e", "e2e of the others", &RequestForecast::e2e_us, &ReplicaDecision::e2e_us, limits.e2e);
  }

  std::vector<Limit> all;
  Forecaster with, without;   // the candidate
  std::vector<double> cases;  // of the limit at hand
};

// The smallest margin so far.
class Tightest {
 public:
  explicit Tightest(ReplicaDecision& decision) : decision_(decision) { decision_.margin = kInfinity; }
  void See(double margin, const char* binds) {
    if (margin >= decision_.margin) return;
    decision_.margin = margin;
    decision_.binds = binds;
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

// Where each of a group is looked at, evenly spread.
constexpr int kCases = 8;
const std::array<QuantilePoint, kCases>& Cases() {
  static const auto cases = [] {
    std::array<QuantilePoint, kCases> points;
    for (int k = 0; k < kCases; ++k) points[static_cast<std::size_t>(k)] = QuantilePoint::At((k + 0.5) / kCases);
    return points;
  }();
  return cases;
}

// The limit's quantile over all cases of all requests that are there: their
// own spread and the differences between them. Those that would more likely
// than not be late without the candidate are no reason to refuse it. Empty: no
// other.
std::optional<double> PooledQuantile(std::span<const RequestForecast> with, std::span<const RequestForecast> without,
                                     const Limit& limit, std::vector<double>& ln_cases) {
  ln_cases.clear();
  for (std::size_t i = 0; i < with.size(); ++i) {
    const LatencyForecast& now = with[i].*limit.which;
    if (now.empty() || limit.Passed(without[i])) continue;
    now.AppendLn(Cases(), ln_cases);
    // Beyond the last of them.
    now.AppendLn({&limit.at, 1}, ln_cases);
    const double at_limit = ln_cases.back();
    ln_cases.pop_back();
    ln_cases.back() = std::max(ln_cases.back(), at_limit);
  }
  if (ln_cases.empty()) return std::nullopt;
  const auto at =
      std::min(static_cast<std::size_t>(limit.at.quantile * static_cast<double>(ln_cases.size())), ln_cases.size() - 1);
  std::ranges::nth_element(ln_cases, ln_cases.begin() + static_cast<std::ptrdiff_t>(at));
  return std::exp(ln_cases[at]);
}

// What is there already, as pools treat it: a prefill replica hands requests on
// with their first token; what waits in a decode replica has its prompt from
// elsewhere.
EngineState InPool(Replica::Role role, EngineState state) {
  if (role == Replica::Role::kPrefill) {
    for (std::vector<Request>* requests : {&state.running, &state.waiting}) {
      for (Request& request : *requests) request.sequence.output_tokens = request.sequence.generated_tokens + 1;
    }
    return state;
  }
  for (Request& request : state.waiting) {
    Sequence& sequence = request.sequence;
    if (sequence.generated_tokens > 0) continue;
    sequence.cached_tokens = sequence.prompt_tokens;
    sequence.generated_tokens = 1;
    if (sequence.output_tokens == 1) sequence.output_tokens = 2;
  }
  return state;
}

// One replica with the candidate at the end of its queue.
absl::StatusOr<ReplicaDecision> Judge(const Replica& replica, const Request& request, Question& question) {
  if (replica.table == nullptr) return FieldError("table", "is missing");
  ReplicaDecision decision;
  EngineState in_pool;
  const EngineState* state = &replica.state;
  if (replica.role != Replica::Role::kBoth) {
    GPUETA_RETURN_IF_ERROR(Check(replica.state));
    in_pool = InPool(replica.role, replica.state);
    state = &in_pool;
  }
  GPUETA_ASSIGN_OR_RETURN(const auto with, question.with.Forecast(*state, &request, *replica.table, replica.lengths));
  const RequestForecast& own = with.back();
  for (const Limit& limit : question.all) decision.*limit.shown = (own.*limit.which).Quantile(limit.at);
  Tightest tightest(decision);
  if (!std::isfinite(decision.e2e_us)) {
    tightest.See(-kInfinity, "kv_blocks");
    return decision;
  }
  for (const Limit& limit : question.all) {
    if (!limit.us.has_value() || (own.*limit.which).empty()) continue;
    tightest.See((*limit.us - decision.*limit.shown) / *limit.us, limit.name);
  }
  const auto others = with.first(with.size() - 1);
  const auto late = [&](const RequestForecast& other) {
    return std::ranges::any_of(question.all, [&](const Limit& limit) { return limit.Passed(other); });
  };
  auto without = others;
  if (std::ranges::any_of(others, late)) {  // else they are in time without it, too
    GPUETA_ASSIGN_OR_RETURN(without, question.without.Forecast(*state, nullptr, *replica.table, replica.lengths));
  }
  for (const Limit& limit : question.all) {
    if (!limit.us.has_value()) continue;
    const std::optional<double> us = PooledQuantile(others, without, limit, question.cases);
    if (us.has_value()) tightest.See((*limit.us - *us) / *limit.us, limit.of_others);
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
                                            const ReplicaDecision& before, Question& without_ttft) {
  if (!std::isfinite(before.ttft_us)) return before;
  Request request = AsRequest(candidate, replica.cached_tokens);
  const double first_token_us = std::max(before.ttft_us - candidate.since_arrival_us, 0.0);  // from now
  request.transfer_us = first_token_us + replica.transfer_us_per_token * static_cast<double>(candidate.prompt_tokens);
  request.sequence.cached_tokens = candidate.prompt_tokens;
  request.sequence.generated_tokens = 1;
  request.since_first_token_us = -first_token_us;
  if (request.sequence.output_tokens == 1) request.sequence.output_tokens = 2;
  GPUETA_ASSIGN_OR_RETURN(ReplicaDecision decision, Judge(replica, request, without_ttft));
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
  Question whole(limits, options);
  Question of_prefill({.ttft = limits.ttft}, options);
  Question of_decode({.tpot = limits.tpot, .e2e = limits.e2e}, options);
  // Prompts first: a decode replica waits for the best of them.
  std::optional<std::size_t> prefill;
  for (std::size_t i = 0; i < among.size(); ++i) {
    const Replica& replica = replicas[among[i]];
    if (replica.role != Replica::Role::kPrefill) continue;
    Request request = AsRequest(candidate, replica.cached_tokens);
    request.sequence.output_tokens = 1;
    absl::StatusOr<ReplicaDecision> decision = Judge(replica, request, of_prefill);
    if (!decision.ok()) return in_replica(i, decision.status());
    result.replicas[i] = *std::move(decision);
    if (!prefill.has_value() || result.replicas[i].ttft_us < result.replicas[*prefill].ttft_us) prefill = i;
  }
  for (std::size_t i = 0; i < among.size(); ++i) {
    const Replica& replica = replicas[among[i]];
    if (replica.role == Replica::Role::kPrefill) continue;
    absl::StatusOr<ReplicaDecision> decision =
        replica.role == Replica::Role::kDecode ? JudgeDecode(replica, candidate, result.replicas[*prefill], of_decode)
                                               : Judge(replica, AsRequest(candidate, replica.cached_tokens), whole);
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
