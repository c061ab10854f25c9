#include "core/wire/serving_codec.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/wire/enum_codec.h"
#include "core/wire/prediction_codec.h"

namespace gpueta::wire {
namespace {

static_assert(static_cast<int>(Replica::Role::kBoth) + 1 == v1::Replica::ROLE_BOTH &&
              static_cast<int>(Replica::Role::kDecode) + 1 == v1::Replica::ROLE_DECODE);

// What the proto says of fields that are not set.
template <class Number>
Number Or(Number value, Number otherwise) {
  return value == 0 ? otherwise : value;
}

absl::Status DecodeDType(const char* field, v1::DType message, std::optional<DType>& dtype) {
  dtype.reset();
  if (message == v1::DTYPE_UNSPECIFIED) return absl::OkStatus();
  dtype = Decode(message);
  return dtype.has_value() ? absl::OkStatus() : FieldError(field, "has an unknown value");
}

Request DecodeRequest(const v1::EngineRequest& message, bool running) {
  Request request;
  Sequence& sequence = request.sequence;
  sequence.prompt_tokens = message.prompt_tokens();
  sequence.cached_tokens = message.cached_tokens();
  sequence.generated_tokens = message.generated_tokens();
  sequence.output_tokens = message.output_tokens();
  sequence.computed_tokens = message.computed_tokens();
  if (running && sequence.computed_tokens == 0 && sequence.generated_tokens > 0) {
    sequence.computed_tokens = sequence.known_tokens() - 1;
  }
  request.since_arrival_us = message.since_arrival_us();
  request.since_first_token_us = message.since_first_token_us();
  return request;
}

void EncodeRequest(const Request& request, v1::EngineRequest& message) {
  const Sequence& sequence = request.sequence;
  message.set_prompt_tokens(sequence.prompt_tokens);
  message.set_cached_tokens(sequence.cached_tokens);
  message.set_computed_tokens(sequence.computed_tokens);
  message.set_generated_tokens(sequence.generated_tokens);
  message.set_output_tokens(sequence.output_tokens);
  message.set_since_arrival_us(request.since_arrival_us);
  message.set_since_first_token_us(request.since_first_token_us);
}

absl::StatusOr<OutputLengths> DecodeLengths(const v1::OutputLengths& message) {
  if (!message.samples().empty())
    return OutputLengths::FromSamples({message.samples().begin(), message.samples().end()});
  constexpr double kUsualMean = 256;
  constexpr double kLargestMean = 1e7;
  const double mean = Or(message.mean(), kUsualMean);
  if (!(mean >= 1 && mean <= kLargestMean)) return FieldError("mean", fmt::format("{} is not from 1 to 1e7", mean));
  return OutputLengths::Geometric(mean);
}

std::optional<LatencyLimit> DecodeLimit(bool is_set, const v1::LatencyLimit& message) {
  if (!is_set) return std::nullopt;
  return LatencyLimit{.us = message.us(), .quantile = Or(message.quantile(), LatencyLimit().quantile)};
}

void EncodeLimit(const LatencyLimit& limit, v1::LatencyLimit& message) {
  message.set_us(limit.us);
  message.set_quantile(limit.quantile);
}

// The parts that both kinds of requests have.
template <class Message>
absl::Status DecodeParts(const Message& message, FleetChange& change) {
  if (!message.engines().empty()) {
    std::vector<EngineSetup>& engines = change.engines.emplace();
    for (int i = 0; i < message.engines_size(); ++i) {
      auto setup = Decode(message.engines(i));
      if (!setup.ok()) return InField(fmt::format("engines[{}]", i), setup.status());
      engines.push_back(*std::move(setup));
    }
  }
  if (message.has_limits()) change.limits = Decode(message.limits());
  change.replicas.reserve(static_cast<std::size_t>(message.replicas_size()));
  for (int i = 0; i < message.replicas_size(); ++i) {
    auto described = Decode(message.replicas(i));
    if (!described.ok()) return InField(fmt::format("replicas[{}]", i), described.status());
    change.replicas.push_back(*std::move(described));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Deployment> Decode(const v1::Deployment& message) {
  Deployment deployment;
  deployment.ranks = {.tensor = Or<std::int64_t>(message.tensor_ranks(), 1),
                      .expert = Or<std::int64_t>(message.expert_ranks(), 1),
                      .pipeline = Or<std::int64_t>(message.pipeline_stages(), 1)};
  deployment.expert_imbalance = Or(message.expert_imbalance(), 1.0);
  GPUETA_RETURN_IF_ERROR(DecodeDType("dtype", message.dtype(), deployment.dtype));
  GPUETA_RETURN_IF_ERROR(DecodeDType("kv_dtype", message.kv_dtype(), deployment.kv_dtype));
  return deployment;
}

v1::Deployment Encode(const Deployment& deployment) {
  v1::Deployment message;
  message.set_tensor_ranks(deployment.ranks.tensor);
  message.set_expert_ranks(deployment.ranks.expert);
  message.set_pipeline_stages(deployment.ranks.pipeline);
  message.set_expert_imbalance(deployment.expert_imbalance);
  if (deployment.dtype.has_value()) message.set_dtype(Encode(*deployment.dtype));
  if (deployment.kv_dtype.has_value()) message.set_kv_dtype(Encode(*deployment.kv_dtype));
  return message;
}

EngineOverhead Decode(const v1::EngineOverhead& message) {
  return {.step_us = message.step_us(), .token_us = message.token_us()};
}

v1::EngineOverhead Encode(const EngineOverhead& overhead) {
  v1::EngineOverhead message;
  message.set_step_us(overhead.step_us);
  message.set_token_us(overhead.token_us);
  return message;
}

absl::StatusOr<EngineStep> Decode(const v1::EngineStep& message) {
  if (message.has_counts()) {
    if (message.prefill_size() + message.decode_context_size() > 0) {
      return FieldError("counts", "stand in for prefill and decode_context; give one of both");
    }
    const v1::StepCounts& counts = message.counts();
    auto step = StepOf({.prefill_tokens = counts.prefill_tokens(),
                        .prefill_sequences = Or<std::int64_t>(counts.prefill_sequences(), 1),
                        .cached_tokens = counts.cached_tokens(),
                        .decode_sequences = counts.decode_sequences(),
                        .context_tokens = counts.context_tokens()},
                       message.speculative_tokens());
    return step.ok() ? std::move(step) : InField("counts", step.status());
  }
  EngineStep step;
  for (const v1::PrefillChunk& chunk : message.prefill()) {
    step.prefill.push_back({.new_tokens = chunk.new_tokens(), .cached_tokens = chunk.cached_tokens()});
  }
  step.decode_context.assign(message.decode_context().begin(), message.decode_context().end());
  step.speculative_tokens = message.speculative_tokens();
  return step;
}

std::int64_t SequencesOf(const v1::EngineStep& message) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;  // of each, so that sums stay far from overflow
  const v1::StepCounts& counts = message.counts();
  return message.prefill_size() + message.decode_context_size() +
         std::clamp<std::int64_t>(counts.prefill_sequences(), 0, kMost) +
         std::clamp<std::int64_t>(counts.decode_sequences(), 0, kMost);
}

v1::EngineStep Encode(const EngineStep& step) {
  v1::EngineStep message;
  for (const PrefillChunk& chunk : step.prefill) {
    v1::PrefillChunk& out = *message.add_prefill();
    out.set_new_tokens(chunk.new_tokens);
    out.set_cached_tokens(chunk.cached_tokens);
  }
  message.mutable_decode_context()->Add(step.decode_context.begin(), step.decode_context.end());
  message.set_speculative_tokens(step.speculative_tokens);
  return message;
}

absl::StatusOr<EngineSetup> Decode(const v1::EngineKind& message) {
  EngineSetup setup;
  auto deployment = Decode(message.deployment());
  if (!deployment.ok()) return InField("deployment", deployment.status());
  setup.deployment = *deployment;
  setup.overhead = Decode(message.overhead());
  setup.limits.token_budget = Or(message.token_budget(), setup.limits.token_budget);
  setup.limits.max_sequences = Or(message.max_sequences(), setup.limits.max_sequences);
  setup.limits.block_tokens = Or(message.block_tokens(), setup.limits.block_tokens);
  setup.limits.kv_blocks = message.kv_blocks();
  setup.limits.speculation = {.tokens = message.speculative_tokens(), .acceptance = message.acceptance()};
  setup.memory_share = Or(message.memory_share(), setup.memory_share);
  GPUETA_RETURN_IF_ERROR(Check(setup));
  return setup;
}

void Encode(const EngineSetup& setup, v1::EngineKind& message) {
  *message.mutable_deployment() = Encode(setup.deployment);
  *message.mutable_overhead() = Encode(setup.overhead);
  message.set_token_budget(setup.limits.token_budget);
  message.set_max_sequences(setup.limits.max_sequences);
  message.set_block_tokens(setup.limits.block_tokens);
  message.set_kv_blocks(setup.limits.kv_blocks);
  message.set_speculative_tokens(setup.limits.speculation.tokens);
  message.set_acceptance(setup.limits.speculation.acceptance);
  message.set_memory_share(setup.memory_share);
}

LatencyLimits Decode(const v1::LatencyLimits& message) {
  return {.ttft = DecodeLimit(message.has_ttft(), message.ttft()),
          .tpot = DecodeLimit(message.has_tpot(), message.tpot()),
          .e2e = DecodeLimit(message.has_e2e(), message.e2e())};
}

v1::LatencyLimits Encode(const LatencyLimits& limits) {
  v1::LatencyLimits message;
  if (limits.ttft.has_value()) EncodeLimit(*limits.ttft, *message.mutable_ttft());
  if (limits.tpot.has_value()) EncodeLimit(*limits.tpot, *message.mutable_tpot());
  if (limits.e2e.has_value()) EncodeLimit(*limits.e2e, *message.mutable_e2e());
  return message;
}

absl::StatusOr<DescribedReplica> Decode(const v1::Replica& message) {
  DescribedReplica described;
  Replica& replica = described.replica;
  replica.name = message.name();
  if (message.engine() < 0) return FieldError("engine", fmt::format("{} is no place in the list", message.engine()));
  described.engine = static_cast<std::size_t>(message.engine());
  if (!v1::Replica::Role_IsValid(message.role())) return FieldError("role", "has an unknown value");
  if (message.role() != v1::Replica::ROLE_UNSPECIFIED) replica.role = static_cast<Replica::Role>(message.role() - 1);
  EngineState& state = replica.state;
  state.running.reserve(static_cast<std::size_t>(message.running_size()));
  for (const v1::EngineRequest& request : message.running()) state.running.push_back(DecodeRequest(request, true));
  state.waiting.reserve(static_cast<std::size_t>(message.waiting_size()));
  for (const v1::EngineRequest& request : message.waiting()) state.waiting.push_back(DecodeRequest(request, false));
  if (message.has_metrics()) {
    const v1::EngineMetrics& in = message.metrics();
    EngineMetrics& metrics = described.metrics.emplace();
    metrics.running = in.running();
    metrics.waiting = in.waiting();
    metrics.kv_usage = in.kv_usage();
    metrics.mean_prompt_tokens = Or(in.mean_prompt_tokens(), metrics.mean_prompt_tokens);
    metrics.mean_output_tokens = Or(in.mean_output_tokens(), metrics.mean_output_tokens);
  }
  state.step_in_flight_us = message.step_in_flight_us();
  auto lengths = DecodeLengths(message.output_lengths());
  if (!lengths.ok()) return InField("output_lengths", lengths.status());
  replica.lengths = *std::move(lengths);
  replica.transfer_us_per_token = message.transfer_us_per_token();
  return described;
}

v1::Replica Encode(const DescribedReplica& described) {
  v1::Replica message;
  const Replica& replica = described.replica;
  message.set_name(replica.name);
  message.set_engine(static_cast<int>(described.engine));
  message.set_role(static_cast<v1::Replica::Role>(static_cast<int>(replica.role) + 1));
  for (const Request& request : replica.state.running) EncodeRequest(request, *message.add_running());
  for (const Request& request : replica.state.waiting) EncodeRequest(request, *message.add_waiting());
  if (described.metrics.has_value()) {
    v1::EngineMetrics& metrics = *message.mutable_metrics();
    metrics.set_running(described.metrics->running);
    metrics.set_waiting(described.metrics->waiting);
    metrics.set_kv_usage(described.metrics->kv_usage);
    metrics.set_mean_prompt_tokens(described.metrics->mean_prompt_tokens);
    metrics.set_mean_output_tokens(described.metrics->mean_output_tokens);
  }
  message.set_step_in_flight_us(replica.state.step_in_flight_us);
  const std::span<const std::int64_t> samples = replica.lengths.samples();
  message.mutable_output_lengths()->mutable_samples()->Add(samples.begin(), samples.end());
  message.mutable_output_lengths()->set_mean(replica.lengths.mean());
  message.set_transfer_us_per_token(replica.transfer_us_per_token);
  return message;
}

DescribedCandidate Decode(const v1::Candidate& message) {
  DescribedCandidate out;
  out.id = message.id();
  out.candidate.prompt_tokens = message.prompt_tokens();
  out.candidate.output_tokens = message.output_tokens();
  out.candidate.since_arrival_us = message.since_arrival_us();
  for (const v1::Candidate::Cached& cached : message.cached()) {
    out.cached.emplace_back(cached.replica(), cached.tokens());
  }
  out.among.assign(message.among().begin(), message.among().end());
  return out;
}

v1::Candidate Encode(const DescribedCandidate& candidate) {
  v1::Candidate message;
  message.set_id(candidate.id);
  message.set_prompt_tokens(candidate.candidate.prompt_tokens);
  message.set_output_tokens(candidate.candidate.output_tokens);
  message.set_since_arrival_us(candidate.candidate.since_arrival_us);
  for (const auto& [replica, tokens] : candidate.cached) {
    v1::Candidate::Cached& cached = *message.add_cached();
    cached.set_replica(replica);
    cached.set_tokens(tokens);
  }
  message.mutable_among()->Assign(candidate.among.begin(), candidate.among.end());
  return message;
}

absl::StatusOr<FleetChange> Decode(const v1::AdmitRequest& message) {
  FleetChange change;
  GPUETA_RETURN_IF_ERROR(DecodeParts(message, change));
  return change;
}

absl::StatusOr<FleetChange> Decode(const v1::StreamAdmitRequest& message) {
  FleetChange change;
  GPUETA_RETURN_IF_ERROR(DecodeParts(message, change));
  change.removed.assign(message.removed_replicas().begin(), message.removed_replicas().end());
  for (const v1::StreamAdmitRequest::Joined& joined : message.joined()) {
    change.joined.emplace_back(joined.replica(), DecodeRequest(joined.request(), false));
  }
  return change;
}

void Encode(const Admission& admission, v1::Admission& message) {
  message.set_candidate(admission.candidate);
  message.mutable_replicas()->Reserve(static_cast<int>(admission.replicas.size()));
  for (std::size_t i = 0; i < admission.replicas.size(); ++i) {
    const ReplicaDecision& decision = admission.replicas[i];
    v1::ReplicaDecision& out = *message.add_replicas();
    out.set_replica(admission.names[i]);
    out.set_admit(decision.admit);
    out.set_ttft_us(decision.ttft_us);
    out.set_tpot_us(decision.tpot_us);
    out.set_e2e_us(decision.e2e_us);
    out.set_margin(decision.margin);
    out.set_binds(decision.binds);
  }
  message.set_recommended(admission.recommended);
  message.set_recommended_prefill(admission.recommended_prefill);
}

MaxBatchQuestion Decode(const v1::MaxBatchRequest& message) {
  MaxBatchQuestion question;
  question.contexts.assign(message.contexts().begin(), message.contexts().end());
  if (message.has_load()) {
    question.load = {.input_tokens = message.load().input_tokens(), .output_tokens = message.load().output_tokens()};
  }
  question.limits = Decode(message.limits());
  return question;
}

void Encode(const MaxBatchQuestion& question, v1::MaxBatchRequest& message) {
  message.mutable_contexts()->Add(question.contexts.begin(), question.contexts.end());
  if (question.load.has_value()) {
    message.mutable_load()->set_input_tokens(question.load->input_tokens);
    message.mutable_load()->set_output_tokens(question.load->output_tokens);
  }
  *message.mutable_limits() = Encode(question.limits);
}

void Encode(const ServedModel& served, const MaxBatchAnswer& answer, v1::MaxBatchResponse& message) {
  message.set_gpus(served.gpus);
  message.set_memory_bytes(served.room.memory_bytes);
  message.set_weight_bytes(served.room.weight_bytes);
  message.set_activation_bytes(served.room.activation_bytes);
  message.set_cache_bytes(served.room.cache_bytes);
  message.set_kv_bytes_per_token(served.model->kv_bytes_per_token());
  message.set_kv_blocks(served.room.blocks);
  for (const MaxBatchAnswer::Row& row : answer.rows) {
    v1::MaxBatchResponse::Batch& batch = *message.add_batches();
    batch.set_context(row.context);
    batch.set_sequences(row.batch.sequences);
    batch.set_binds(row.batch.binds);
    const StepLatency& step = row.batch.step;
    Encode(Quantiles{step.p50_us, step.Quantile(0.9), step.Quantile(0.99)}, *batch.mutable_step_us());
    batch.set_prefill_tokens(row.prefill_tokens);
  }
  if (answer.rate.has_value()) {
    v1::MaxBatchResponse::Rate& rate = *message.mutable_rate();
    rate.set_sequences(answer.rate->sequences);
    rate.set_requests_per_s(answer.rate->requests_per_s);
    rate.set_output_tokens_per_s(answer.rate->output_tokens_per_s);
    rate.set_ttft_us(answer.rate->ttft_us);
    rate.set_tpot_us(answer.rate->tpot_us);
  }
  message.set_table_error(served.table.checked_error());
  for (const std::string& warning : served.model->warnings()) message.add_warnings(warning);
}

void Encode(const GraphEstimate& step, double overhead_us, v1::StepPrediction& message) {
  Encode(step.latency_us, *message.mutable_latency_us());
  for (const auto& [name, us] : BreakdownOf(step)) (*message.mutable_breakdown_us())[name] = us;
  if (overhead_us > 0) (*message.mutable_breakdown_us())["overhead"] = overhead_us;
  for (const auto& [kind, share] : step.provenance) (*message.mutable_provenance())[std::string(Name(kind))] = share;
  message.set_correction(step.correction);
}

}  // namespace gpueta::wire
