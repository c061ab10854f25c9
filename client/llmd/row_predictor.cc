#include "client/llmd/row_predictor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"

namespace gpueta::llmd {
namespace {

constexpr std::size_t kMostRowsACall = 4096;
constexpr std::int64_t kMostRequestsACall = 100'000;
constexpr std::size_t kRecordsKept = 1024;
constexpr std::size_t kRecordsNeeded = 50;
constexpr std::size_t kRecordsACall = 256;  // of those that are sent, evenly spread
constexpr double kNoLimitUs = 1e12;         // a limit only names its quantile here

std::int64_t RequestsOf(const Row& row) { return row.num_request_running + row.num_request_waiting; }

v1::Replica ReplicaOf(const Row& row, const RowPredictor::Options& options, std::string name) {
  v1::Replica replica;
  replica.set_name(std::move(name));
  v1::EngineMetrics& metrics = *replica.mutable_metrics();
  metrics.set_running(row.num_request_running);
  metrics.set_waiting(row.num_request_waiting);
  metrics.set_kv_usage(row.kv_cache_percentage);
  metrics.set_mean_prompt_tokens(options.mean_prompt_tokens);
  if (row.prefill_tokens_in_flight > 0 && row.num_request_waiting > 0) {
    metrics.set_mean_prompt_tokens(std::clamp(
        static_cast<double>(row.prefill_tokens_in_flight) / static_cast<double>(row.num_request_waiting), 1.0, 1e7));
  }
  metrics.set_mean_output_tokens(options.mean_output_tokens);
  replica.mutable_output_lengths()->set_mean(options.mean_output_tokens);
  return replica;
}

// What a pod that only decodes is given has its prompt computed already.
v1::Candidate CandidateOf(const Row& row, const std::string& replica) {
  v1::Candidate candidate;
  candidate.set_prompt_tokens(std::max<std::int64_t>(row.input_token_length, 1));
  candidate.add_among(replica);
  const double share = row.pod_type == "decode" ? 1 : row.prefix_cache_score;
  const auto cached = static_cast<std::int64_t>(share * static_cast<double>(candidate.prompt_tokens()));
  if (cached > 0) {
    v1::Candidate::Cached& out = *candidate.add_cached();
    out.set_replica(replica);
    out.set_tokens(cached);
  }
  return candidate;
}

// The same request once so many tokens are out: nothing of it is left to
// compute, and its context is longer.
v1::Candidate UnderWay(const Row& row, const std::string& replica) {
  v1::Candidate candidate;
  candidate.set_prompt_tokens(std::max<std::int64_t>(row.input_token_length + row.num_tokens_generated, 1));
  candidate.add_among(replica);
  v1::Candidate::Cached& cached = *candidate.add_cached();
  cached.set_replica(replica);
  cached.set_tokens(candidate.prompt_tokens());
  return candidate;
}

}  // namespace

absl::Status RowPredictor::PredictSome(std::span<const Row> rows, const EngineOverhead& overhead, double quantile,
                                       std::vector<absl::StatusOr<RowAnswer>>& answers) const {
  v1::AdmitRequest request;
  v1::EngineKind& engine = *request.add_engines();
  engine = options_.engine;
  engine.mutable_overhead()->set_step_us(overhead.step_us);
  engine.mutable_overhead()->set_token_us(overhead.token_us);
  for (v1::LatencyLimit* limit : {request.mutable_limits()->mutable_ttft(), request.mutable_limits()->mutable_tpot()}) {
    limit->set_us(kNoLimitUs);
    limit->set_quantile(quantile);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = std::to_string(i);
    *request.add_replicas() = ReplicaOf(rows[i], options_, name);
    *request.add_candidates() = CandidateOf(rows[i], name);
    if (rows[i].num_tokens_generated > 0) *request.add_candidates() = UnderWay(rows[i], name);
  }
  GPUETA_ASSIGN_OR_RETURN(const v1::AdmitResponse response, ask_(request));
  int at = 0;
  for (const Row& row : rows) {
    const bool under_way = row.num_tokens_generated > 0;
    if (response.admissions_size() < at + (under_way ? 2 : 1)) return Internal("the server left out an answer");
    const v1::ReplicaDecision& first = response.admissions(at).replicas(0);
    const v1::ReplicaDecision& later = response.admissions(at + (under_way ? 1 : 0)).replicas(0);
    at += under_way ? 2 : 1;
    if (!std::isfinite(first.ttft_us()) || !std::isfinite(later.tpot_us())) {
      answers.emplace_back(FailedPrecondition("the request does not fit into the engine's cache"));
    } else {
      answers.emplace_back(RowAnswer{.ttft_ms = first.ttft_us() / 1e3, .tpot_ms = later.tpot_us() / 1e3});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<absl::StatusOr<RowAnswer>>> RowPredictor::Predict(std::span<const Row> rows,
                                                                             const EngineOverhead& overhead,
                                                                             double quantile) const {
  std::vector<absl::StatusOr<RowAnswer>> answers;
  answers.reserve(rows.size());
  while (!rows.empty()) {
    std::size_t count = 0;
    for (std::int64_t requests = 0; count < std::min(rows.size(), kMostRowsACall); ++count) {
      requests += RequestsOf(rows[count]);
      if (requests > kMostRequestsACall && count > 0) break;
    }
    GPUETA_RETURN_IF_ERROR(PredictSome(rows.first(count), overhead, quantile, answers));
    rows = rows.subspan(count);
  }
  return answers;
}

absl::StatusOr<std::vector<absl::StatusOr<RowAnswer>>> RowPredictor::Predict(std::span<const Row> rows) const {
  return Predict(rows, overhead(), options_.quantile);
}

absl::Status RowPredictor::Learn(std::span<const Sample> samples) {
  std::vector<Row> rows;
  std::vector<double> observed_us;
  const std::size_t step = samples.size() / kRecordsACall + 1;
  for (std::size_t i = 0; i < samples.size(); i += step) {
    if (samples[i].tpot_ms <= 0) continue;
    rows.push_back(samples[i].row);
    observed_us.push_back(samples[i].tpot_ms * 1e3);
  }
  if (rows.empty()) return absl::OkStatus();
  // What the kernels alone would take.
  GPUETA_ASSIGN_OR_RETURN(const auto predicted, Predict(rows, {}, 0.5));
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!predicted[i].ok() || !(predicted[i]->tpot_ms > 0)) continue;
    records_.push_back({.tokens = rows[i].num_request_running + 1,
                        .kernels_us = predicted[i]->tpot_ms * 1e3,
                        .observed_us = observed_us[i]});
  }
  while (records_.size() > kRecordsKept) records_.pop_front();
  if (records_.size() < kRecordsNeeded) return absl::OkStatus();
  GPUETA_ASSIGN_OR_RETURN(overhead_, FitEngineOverhead(std::vector(records_.begin(), records_.end())));
  return absl::OkStatus();
}

EngineOverhead RowPredictor::overhead() const {
  const std::lock_guard lock(mutex_);
  return overhead_;
}

std::size_t RowPredictor::samples() const {
  const std::lock_guard lock(mutex_);
  return records_.size();
}

}  // namespace gpueta::llmd
