#include "core/serving/admit_json.h"

#include <algorithm>
#include <cmath>

#include "core/base/json_fields.h"

namespace gpueta {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::size_t kMostReplicas = 16'384;
constexpr std::size_t kMostEntries = 1 << 17;  // of any other list

void ReadDType(JsonFields& fields, const char* name, std::optional<DType>& value) {
  std::string text;
  fields.Read(name, text);
  if (text.empty()) return;
  value = ParseDType(text);
  if (!value.has_value()) fields.Fail(name, fmt::format("\"{}\" is no type such as bf16 or fp8", text.substr(0, 40)));
}

absl::Status ReadRequest(const json& object, Request& request) {
  JsonFields fields(object);
  fields.Read("prompt_tokens", request.sequence.prompt_tokens);
  fields.Read("cached_tokens", request.sequence.cached_tokens);
  fields.Read("generated_tokens", request.sequence.generated_tokens);
  if (request.sequence.generated_tokens > 0 && request.sequence.prompt_tokens > 0) {
    request.sequence.computed_tokens = request.sequence.known_tokens() - 1;  // unless it says otherwise
  }
  fields.Read("computed_tokens", request.sequence.computed_tokens);
  fields.Read("output_tokens", request.sequence.output_tokens);
  fields.Read("since_arrival_ms", request.since_arrival_us, 1e3);
  fields.Read("since_first_token_ms", request.since_first_token_us, 1e3);
  return fields.Finish();
}

absl::Status ReadMetrics(const json& object, EngineMetrics& metrics) {
  JsonFields fields(object);
  fields.Read("running", metrics.running);
  fields.Read("waiting", metrics.waiting);
  fields.Read("kv_usage", metrics.kv_usage);
  fields.Read("mean_prompt_tokens", metrics.mean_prompt_tokens);
  fields.Read("mean_output_tokens", metrics.mean_output_tokens);
  return fields.Finish();
}

// {"mean": M}, or a list of observed lengths.
absl::Status ReadLengths(const json& value, OutputLengths& lengths) {
  if (value.is_array()) {
    std::vector<std::int64_t> samples;
    for (const json& sample : value) {
      if (!sample.is_number_integer()) return absl::InvalidArgumentError("must be integers, or {\"mean\": M}");
      samples.push_back(sample.get<std::int64_t>());
    }
    GPUETA_ASSIGN_OR_RETURN(lengths, OutputLengths::FromSamples(std::move(samples)));
    return absl::OkStatus();
  }
  JsonFields fields(value);
  double mean = lengths.mean();
  fields.Read("mean", mean);
  if (!(mean >= 1 && mean <= 1e7)) fields.Fail("mean", "must be from 1 to 10,000,000");
  GPUETA_RETURN_IF_ERROR(fields.Finish());
  lengths = OutputLengths::Geometric(mean);
  return absl::OkStatus();
}

// The place of an engine like this, added where there is none.
std::size_t PlaceOf(AdmitQuestion& question, const std::string& device, const EngineSetup& setup) {
  std::vector<EngineSetup>& engines = *question.fleet.engines;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    if (question.devices[i] == device && engines[i] == setup) return i;
  }
  question.devices.push_back(device);
  engines.push_back(setup);
  return engines.size() - 1;
}

absl::Status ReadReplica(const json& object, AdmitQuestion& question) {
  JsonFields fields(object);
  DescribedReplica& out = question.fleet.replicas.emplace_back();
  Replica& replica = out.replica;
  replica.name = fmt::format("replicas[{}]", question.fleet.replicas.size() - 1);
  fields.Read("name", replica.name);
  std::string device;
  fields.Require("device");
  fields.Read("device", device);
  EngineSetup setup;
  fields.Read("tp", setup.deployment.ranks.tensor);
  fields.Read("pp", setup.deployment.ranks.pipeline);
  fields.Read("ep", setup.deployment.ranks.expert);
  fields.Read("expert_imbalance", setup.deployment.expert_imbalance);
  ReadDType(fields, "dtype", setup.deployment.dtype);
  ReadDType(fields, "kv_dtype", setup.deployment.kv_dtype);
  std::string role = "both";
  fields.Read("role", role);
  if (role == "prefill") {
    replica.role = Replica::Role::kPrefill;
  } else if (role == "decode") {
    replica.role = Replica::Role::kDecode;
  } else if (role != "both") {
    fields.Fail("role", "is not one of both, prefill, decode");
  }
  fields.Read("token_budget", setup.limits.token_budget);
  fields.Read("max_sequences", setup.limits.max_sequences);
  fields.Read("kv_blocks", setup.limits.kv_blocks);
  if (fields.Has("kv_blocks") && setup.limits.kv_blocks < 1)
    fields.Fail("kv_blocks", "must be at least 1; leave it out for what fits into the device's memory");
  fields.Read("block_tokens", setup.limits.block_tokens);
  fields.Read("speculative_tokens", setup.limits.speculation.tokens);
  fields.Read("acceptance", setup.limits.speculation.acceptance);
  std::int64_t cached_tokens = 0;
  fields.Read("cached_tokens", cached_tokens);
  if (cached_tokens < 0) fields.Fail("cached_tokens", "must not be negative");
  if (cached_tokens > 0) question.candidate.cached.emplace_back(replica.name, cached_tokens);
  fields.Read("transfer_us_per_token", replica.transfer_us_per_token);
  fields.Read("step_in_flight_ms", replica.state.step_in_flight_us, 1e3);
  fields.With("output_lengths", [&](const json& value) { return ReadLengths(value, replica.lengths); });
  fields.Each("running", kMostEntries,
              [&](const json& each) { return ReadRequest(each, replica.state.running.emplace_back()); });
  fields.Each("waiting", kMostEntries,
              [&](const json& each) { return ReadRequest(each, replica.state.waiting.emplace_back()); });
  fields.With("metrics", [&](const json& value) { return ReadMetrics(value, out.metrics.emplace()); });
  GPUETA_RETURN_IF_ERROR(fields.Finish());
  GPUETA_RETURN_IF_ERROR(Check(setup));
  out.engine = PlaceOf(question, device, setup);
  return absl::OkStatus();
}

absl::Status ReadLimits(const json& object, LatencyLimits& limits) {
  JsonFields fields(object);
  double quantile = 0.9;
  fields.Read("quantile", quantile);
  const auto read = [&](const char* name, std::optional<LatencyLimit>& limit) {
    double us = 0;
    if (!fields.Has(name)) return;
    fields.Read(name, us, 1e3);
    limit = LatencyLimit{.us = us, .quantile = quantile};
  };
  read("ttft_ms", limits.ttft);
  read("tpot_ms", limits.tpot);
  read("e2e_ms", limits.e2e);
  return fields.Finish();
}

absl::Status ReadCandidate(const json& object, Candidate& candidate) {
  JsonFields fields(object);
  fields.Read("prompt_tokens", candidate.prompt_tokens);
  fields.Read("output_tokens", candidate.output_tokens);
  fields.Read("since_arrival_ms", candidate.since_arrival_us, 1e3);
  return fields.Finish();
}

absl::Status ReadStep(const json& object, EngineStep& step) {
  JsonFields fields(object);
  fields.Each("prefill", kMostEntries, [&](const json& each) {
    JsonFields own(each);
    PrefillChunk& chunk = step.prefill.emplace_back();
    own.Read("new_tokens", chunk.new_tokens);
    own.Read("cached_tokens", chunk.cached_tokens);
    return own.Finish();
  });
  fields.Each("decode_context", kMostEntries, [&](const json& each) -> absl::Status {
    if (!each.is_number_integer()) return InvalidArgument("is {}, must be an integer", Shown(each));
    step.decode_context.push_back(each.get<std::int64_t>());
    return absl::OkStatus();
  });
  fields.Read("speculative_tokens", step.speculative_tokens);
  fields.With("counts", [&](const json& value) -> absl::Status {
    if (fields.Has("prefill") || fields.Has("decode_context")) {
      return InvalidArgument("stand in for prefill and decode_context; give one of both");
    }
    JsonFields own(value);
    StepCounts counts;
    own.Read("prefill_tokens", counts.prefill_tokens);
    own.Read("prefill_sequences", counts.prefill_sequences);
    own.Read("cached_tokens", counts.cached_tokens);
    own.Read("decode_sequences", counts.decode_sequences);
    own.Read("context_tokens", counts.context_tokens);
    GPUETA_RETURN_IF_ERROR(own.Finish());
    GPUETA_ASSIGN_OR_RETURN(step, StepOf(counts, step.speculative_tokens));
    return absl::OkStatus();
  });
  return fields.Finish();
}

}  // namespace

absl::StatusOr<AdmitQuestion> ParseAdmitQuestion(std::string_view text) {
  GPUETA_ASSIGN_OR_RETURN(const json parsed, ParseJson(text, kMostBytes));
  AdmitQuestion question;
  question.fleet.engines.emplace();
  question.fleet.limits.emplace();
  JsonFields fields(parsed);
  fields.Require("replicas");
  fields.Each("replicas", kMostReplicas, [&](const json& each) { return ReadReplica(each, question); });
  fields.With("candidate", [&](const json& value) { return ReadCandidate(value, question.candidate.candidate); });
  fields.With("limits", [&](const json& value) { return ReadLimits(value, *question.fleet.limits); });
  GPUETA_RETURN_IF_ERROR(fields.Finish());
  if (question.fleet.replicas.empty()) return FieldError("replicas", "is empty");
  return question;
}

absl::StatusOr<EngineStep> ParseEngineStep(std::string_view text) {
  GPUETA_ASSIGN_OR_RETURN(const json parsed, ParseJson(text, kMostBytes));
  EngineStep step;
  GPUETA_RETURN_IF_ERROR(ReadStep(parsed, step));
  return step;
}

absl::StatusOr<std::vector<ObservedStep>> ParseStepRecords(std::string_view text) {
  GPUETA_ASSIGN_OR_RETURN(const json parsed, ParseJson(text, kMostBytes));
  if (!parsed.is_array()) return InvalidArgument("must be a list of steps with their latency_ms");
  std::vector<ObservedStep> records(parsed.size());
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    JsonFields fields(parsed[i]);
    fields.Require("step");
    fields.With("step", [&](const json& value) { return ReadStep(value, records[i].step); });
    fields.Require("latency_ms");
    fields.Read("latency_ms", records[i].latency_us, 1e3);
    GPUETA_RETURN_IF_ERROR(InField(fmt::format("records[{}]", i), fields.Finish()));
  }
  return records;
}

}  // namespace gpueta
