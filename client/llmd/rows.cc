#include "client/llmd/rows.h"

#include "core/base/json_fields.h"

namespace gpueta::llmd {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kMostRows = 10'000;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
constexpr std::int64_t kMostRequests = 1 << 15;

void ReadCount(JsonFields& fields, const char* name, bool required, std::int64_t most, std::int64_t& value) {
  if (required) fields.Require(name);
  fields.Read(name, value);
  if (value < 0 || value > most) fields.Fail(name, fmt::format("{} is not from 0 to {}", value, most));
}

void ReadShare(JsonFields& fields, const char* name, double& value) {
  fields.Require(name);
  fields.Read(name, value);
  if (!(value >= 0 && value <= 1)) fields.Fail(name, fmt::format("{} is not from 0 to 1", value));
}

void ReadRow(JsonFields& fields, Row& row) {
  ReadShare(fields, "kv_cache_percentage", row.kv_cache_percentage);
  ReadCount(fields, "input_token_length", true, kMostTokens, row.input_token_length);
  ReadCount(fields, "num_request_waiting", true, kMostRequests, row.num_request_waiting);
  ReadCount(fields, "num_request_running", true, kMostRequests, row.num_request_running);
  ReadCount(fields, "num_tokens_generated", true, kMostTokens, row.num_tokens_generated);
  ReadShare(fields, "prefix_cache_score", row.prefix_cache_score);
  fields.Read("pod_type", row.pod_type);
  if (!row.pod_type.empty() && row.pod_type != "prefill" && row.pod_type != "decode") {
    fields.Fail("pod_type", "must be empty, prefill or decode");
  }
  ReadCount(fields, "prefill_tokens_in_flight", false, std::int64_t{1} << 40, row.prefill_tokens_in_flight);
}

void ReadLatency(JsonFields& fields, const char* name, double& ms) {
  constexpr double kMostMs = 1e9;
  fields.Read(name, ms);
  if (!(ms >= 0 && ms <= kMostMs)) fields.Fail(name, fmt::format("{} is not from 0 to 1e9", ms));
}

}  // namespace

absl::StatusOr<Row> ParseRow(const nlohmann::json& object) {
  JsonFields fields(object);
  Row row;
  ReadRow(fields, row);
  GPUETA_RETURN_IF_ERROR(fields.status());
  return row;
}

absl::StatusOr<Sample> ParseSample(const nlohmann::json& object) {
  JsonFields fields(object);
  Sample sample;
  ReadRow(fields, sample.row);
  ReadLatency(fields, "actual_ttft_ms", sample.ttft_ms);
  ReadLatency(fields, "actual_tpot_ms", sample.tpot_ms);
  GPUETA_RETURN_IF_ERROR(fields.status());
  return sample;
}

absl::StatusOr<std::vector<nlohmann::json>> ParseList(std::string_view body, const char* list) {
  GPUETA_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseJson(body, kMostBytes));
  std::vector<nlohmann::json> rows;
  JsonFields fields(parsed);
  fields.Require(list);
  fields.Each(list, kMostRows, [&](const nlohmann::json& each) {
    rows.push_back(each);
    return absl::OkStatus();
  });
  if (rows.empty()) fields.Fail(list, "is empty");
  GPUETA_RETURN_IF_ERROR(fields.status());
  return rows;
}

}  // namespace gpueta::llmd
