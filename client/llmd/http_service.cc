#include "client/llmd/http_service.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/errors.h"
#include "core/base/json_fields.h"

namespace gpueta::llmd {
namespace {

using nlohmann::json;

constexpr int kOk = 200, kAccepted = 202, kNotFound = 404, kNoMethod = 405, kWrongBody = 422, kServerError = 500,
              kUnavailable = 503;

HttpAnswer Says(int status, const json& body) {
  return {status, body.dump(-1, ' ', false, json::error_handler_t::replace)};
}

// As the contract's own server words it.
HttpAnswer WrongBody(const absl::Status& status) {
  json place = json::array({"body"});
  if (const std::string field = FieldOf(status); !field.empty()) place.push_back(field);
  return Says(kWrongBody, {{"detail", {{{"loc", place}, {"msg", MessageOf(status)}, {"type", "value_error"}}}}});
}

HttpAnswer ServerProblem(const absl::Status& status) {
  const bool passing = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  return Says(passing ? kUnavailable : kServerError, {{"detail", MessageOf(status)}});
}

double Milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

HttpService::HttpService(RowPredictor& predictor, std::function<std::string()> now)
    : predictor_(&predictor), now_(std::move(now)), started_(now_()) {}

HttpAnswer HttpService::Answer(std::string_view method, std::string_view path, std::string_view body) {
  const bool get = method == "GET";
  const bool post = method == "POST";
  if (path == "/healthz") return get ? Says(kOk, {{"status", "ok"}}) : Says(kNoMethod, {{"detail", "use GET"}});
  if (path == "/readyz") return get ? Ready() : Says(kNoMethod, {{"detail", "use GET"}});
  if (path == "/status") return get ? Status() : Says(kNoMethod, {{"detail", "use GET"}});
  const bool known = path == "/predict" || path == "/predict/bulk" || path == "/predict/bulk/strict" ||
                     path == "/add_training_data_bulk";
  if (!known) return Says(kNotFound, {{"detail", "Not Found"}});
  if (!post) return Says(kNoMethod, {{"detail", "use POST"}});
  if (path == "/predict") return PredictOne(body);
  if (path == "/add_training_data_bulk") return AddSamples(body);
  return PredictBulk(body, path == "/predict/bulk/strict");
}

HttpAnswer HttpService::Ready() const {
  const Row idle{.input_token_length = 1};
  const auto answers = predictor_->Predict({&idle, 1});
  if (answers.ok()) return Says(kOk, {{"status", "ready"}});
  return Says(kUnavailable, {{"detail", MessageOf(answers.status())}});
}

HttpAnswer HttpService::Status() const {
  const EngineOverhead overhead = predictor_->overhead();
  return Says(kOk, {{"is_ready", Ready().status == kOk},
                    {"model_type", "gpueta"},
                    {"objective_type", "quantile"},
                    {"quantile", predictor_->options().quantile},
                    {"last_model_load", started_},
                    {"training_samples", predictor_->samples()},
                    {"step_overhead_us", overhead.step_us},
                    {"token_overhead_us", overhead.token_us}});
}

namespace {

json ToJson(const RowAnswer& answer, const std::string& now, const std::string& started, double quantile) {
  return {{"ttft_ms", answer.ttft_ms}, {"tpot_ms", answer.tpot_ms},    {"predicted_at", now},
          {"model_type", "gpueta"},    {"objective_type", "quantile"}, {"quantile", quantile},
          {"last_model_load", started}};
}

}  // namespace

HttpAnswer HttpService::PredictOne(std::string_view body) const {
  constexpr std::size_t kMostBytes = 1 << 16;
  const auto parsed = ParseJson(body, kMostBytes);
  if (!parsed.ok()) return WrongBody(parsed.status());
  const auto row = ParseRow(*parsed);
  if (!row.ok()) return WrongBody(row.status());
  const auto answers = predictor_->Predict({&*row, 1});
  if (!answers.ok()) return ServerProblem(answers.status());
  if (!answers->front().ok()) return ServerProblem(answers->front().status());
  return Says(kOk, ToJson(*answers->front(), now_(), started_, predictor_->options().quantile));
}

HttpAnswer HttpService::PredictBulk(std::string_view body, bool strict) const {
  const auto start = std::chrono::steady_clock::now();
  const auto list = ParseList(body, "requests");
  if (!list.ok()) return WrongBody(list.status());
  json errors = json::array();
  const auto failed = [&](std::size_t i, const absl::Status& status) {
    errors.push_back({{"index", i}, {"error", MessageOf(status)}, {"request", (*list)[i]}});
  };
  std::vector<Row> rows;
  std::vector<std::size_t> index;  // of each row in the list
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto row = ParseRow((*list)[i]);
    if (row.ok()) {
      rows.push_back(*row);
      index.push_back(i);
    } else if (strict) {
      return WrongBody(InField(fmt::format("requests[{}]", i), row.status()));
    } else {
      failed(i, row.status());
    }
  }
  const auto answers = predictor_->Predict(rows);
  if (!answers.ok()) return ServerProblem(answers.status());
  json predictions = json::array();
  predictions.get_ref<json::array_t&>().resize(list->size());
  const std::string now = now_();
  std::size_t successful = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if ((*answers)[r].ok()) {
      predictions[index[r]] = ToJson(*(*answers)[r], now, started_, predictor_->options().quantile);
      ++successful;
    } else if (strict) {
      return ServerProblem(Prefixed((*answers)[r].status(), fmt::format("requests[{}]", index[r])));
    } else {
      failed(index[r], (*answers)[r].status());
    }
  }
  json answer = {{"predictions", std::move(predictions)},
                 {"total_requests", list->size()},
                 {"successful_predictions", successful},
                 {"failed_predictions", list->size() - successful},
                 {"processing_time_ms", Milliseconds(std::chrono::steady_clock::now() - start)}};
  if (!strict) answer["errors"] = std::move(errors);
  return Says(kOk, answer);
}

HttpAnswer HttpService::AddSamples(std::string_view body) const {
  const auto list = ParseList(body, "entries");
  if (!list.ok()) return WrongBody(list.status());
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto sample = ParseSample((*list)[i]);
    if (!sample.ok()) return WrongBody(InField(fmt::format("entries[{}]", i), sample.status()));
    samples.push_back(*sample);
  }
  if (const absl::Status status = predictor_->Learn(samples); !status.ok()) return ServerProblem(status);
  return Says(kAccepted, {{"message", fmt::format("Accepted {} training samples.", samples.size())}});
}

}  // namespace gpueta::llmd
