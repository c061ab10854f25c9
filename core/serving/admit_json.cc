#include "core/serving/admit_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using nlohmann::json;

constexpr std::size_t kMostReplicas = 4096;
constexpr std::size_t kMostRequests = 1 << 16;

// Typed fields of one JSON object; the first wrong one is the error, and so is
// one that nobody asked for.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {
    if (!object.is_object()) error_ = absl::InvalidArgumentError("must be a JSON object");
  }

  bool Has(const char* name) {
    known_.insert(name);
    return object_.is_object() && object_.contains(name) && !object_[name].is_null();
  }
  void Read(const char* name, std::int64_t& value) {
    if (!Has(name)) return;
    const json& field = object_[name];
    const double number = field.is_number() ? field.get<double>() : std::nan("");
    if (std::floor(number) != number || std::abs(number) > 9e15) return Fail(name, "must be an integer");
    value = static_cast<std::int64_t>(number);
  }
  void Read(const char* name, double& value, double unit = 1) {
    if (!Has(name)) return;
    if (!object_[name].is_number()) return Fail(name, "must be a number");
    value = object_[name].get<double>() * unit;
  }
  void Read(const char* name, std::string& value) {
    if (!Has(name)) return;
    if (!object_[name].is_string()) return Fail(name, "must be a string");
    value = object_[name].get<std::string>();
  }
  void Read(const char* name, std::optional<DType>& value) {
    std::string text;
    Read(name, text);
    if (text.empty()) return;
    value = ParseDType(text);
    if (!value.has_value()) Fail(name, fmt::format("\"{}\" is no type such as bf16 or fp8", text.substr(0, 40)));
  }
  // A list or an object, read by its own function.
  template <class ReadIt>
  void With(const char* name, const ReadIt& read) {
    if (!Has(name) || !error_.ok()) return;
    error_ = InField(name, read(object_[name]));
  }
  template <class ReadOne>
  void Each(const char* name, std::size_t most, const ReadOne& read) {
    With(name, [&](const json& list) -> absl::Status {
      if (!list.is_array()) return absl::InvalidArgumentError("must be a list");
      if (list.size() > most) return InvalidArgument("{} entries; {} are possible", list.size(), most);
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (const absl::Status status = read(list[i]); !status.ok()) return Prefixed(status, fmt::format("[{}]", i));
      }
      return absl::OkStatus();
    });
  }
  void Fail(const char* name, std::string_view problem) {
    if (error_.ok()) error_ = FieldError(name, problem);
  }
  absl::Status Finish() {
    if (!error_.ok()) return error_;
    for (const auto& [name, value] : object_.items()) {
      if (!known_.contains(name)) return FieldError(name.substr(0, 80), "is no field here");
    }
    return absl::OkStatus();
  }

 private:
  const json& object_;
  std::set<std::string> known_;
  absl::Status error_;
};

absl::Status ReadRequest(const json& object, Request& request) {
  Fields fields(object);
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
  Fields fields(object);
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
  Fields fields(value);
  double mean = lengths.mean();
  fields.Read("mean", mean);
  if (!(mean >= 1 && mean <= 1e7)) fields.Fail("mean", "must be from 1 to 10,000,000");
  GPUETA_RETURN_IF_ERROR(fields.Finish());
  lengths = OutputLengths::Geometric(mean);
  return absl::OkStatus();
}

absl::Status ReadReplica(const json& object, DescribedReplica& out) {
  Fields fields(object);
  Replica& replica = out.replica;
  replica.state.limits.kv_blocks = 0;
  fields.Read("name", replica.name);
  fields.Read("device", out.device);
  if (out.device.empty()) fields.Fail("device", "is missing");
  fields.Read("tp", out.deployment.ranks.tensor);
  fields.Read("pp", out.deployment.ranks.pipeline);
  fields.Read("ep", out.deployment.ranks.expert);
  fields.Read("dtype", out.deployment.dtype);
  fields.Read("kv_dtype", out.deployment.kv_dtype);
  std::string role = "both";
  fields.Read("role", role);
  if (role == "prefill") {
    replica.role = Replica::Role::kPrefill;
  } else if (role == "decode") {
    replica.role = Replica::Role::kDecode;
  } else if (role != "both") {
    fields.Fail("role", "is not one of both, prefill, decode");
  }
  fields.Read("token_budget", replica.state.limits.token_budget);
  fields.Read("max_sequences", replica.state.limits.max_sequences);
  fields.Read("kv_blocks", replica.state.limits.kv_blocks);
  if (object.contains("kv_blocks") && replica.state.limits.kv_blocks < 1)
    fields.Fail("kv_blocks", "must be at least 1; leave it out for what fits into the device's memory");
  fields.Read("block_tokens", replica.state.limits.block_tokens);
  fields.Read("cached_tokens", replica.cached_tokens);
  if (replica.cached_tokens < 0) fields.Fail("cached_tokens", "must not be negative");
  fields.Read("transfer_us_per_token", replica.transfer_us_per_token);
  if (!(replica.transfer_us_per_token >= 0) || replica.transfer_us_per_token > 1e9) {
    fields.Fail("transfer_us_per_token", "must be from 0 to 1e9");
  }
  fields.Read("step_in_flight_ms", replica.state.step_in_flight_us, 1e3);
  fields.With("output_lengths", [&](const json& value) { return ReadLengths(value, replica.lengths); });
  fields.Each("running", kMostRequests,
              [&](const json& each) { return ReadRequest(each, replica.state.running.emplace_back()); });
  fields.Each("waiting", kMostRequests,
              [&](const json& each) { return ReadRequest(each, replica.state.waiting.emplace_back()); });
  fields.With("metrics", [&](const json& value) { return ReadMetrics(value, out.metrics.emplace()); });
  if (out.metrics.has_value() && (!replica.state.running.empty() || !replica.state.waiting.empty())) {
    fields.Fail("metrics", "stand in for running and waiting requests; give one of both");
  }
  return fields.Finish();
}

absl::Status ReadLimits(const json& object, LatencyLimits& limits) {
  Fields fields(object);
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
  Fields fields(object);
  fields.Read("prompt_tokens", candidate.prompt_tokens);
  fields.Read("output_tokens", candidate.output_tokens);
  fields.Read("since_arrival_ms", candidate.since_arrival_us, 1e3);
  return fields.Finish();
}

}  // namespace

absl::StatusOr<AdmitQuestion> ParseAdmitQuestion(std::string_view text) {
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::InvalidArgumentError("is no JSON");
  AdmitQuestion question;
  Fields fields(parsed);
  fields.Each("replicas", kMostReplicas,
              [&](const json& each) { return ReadReplica(each, question.replicas.emplace_back()); });
  fields.With("candidate", [&](const json& value) { return ReadCandidate(value, question.candidate); });
  fields.With("limits", [&](const json& value) { return ReadLimits(value, question.limits); });
  GPUETA_RETURN_IF_ERROR(fields.Finish());
  if (question.replicas.empty()) return FieldError("replicas", "is missing");
  return question;
}

}  // namespace gpueta
