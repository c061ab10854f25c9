#include "server/handlers/rank.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/errors.h"
#include "core/predict/rank.h"
#include "gpueta/v1/prediction_service.pb.h"

namespace gpueta {
namespace {

absl::StatusOr<RankOptions> OptionsOf(const v1::RankDevicesRequest& request) {
  RankOptions options;
  if (!(request.limit_us() >= 0) || std::isinf(request.limit_us()))
    return FieldError("limit_us", "must be a latency in microseconds, or 0 for none");
  if (request.limit_us() > 0) options.limit_us = request.limit_us();
  if (request.confidence() != 0) options.confidence = request.confidence();
  if (!(options.confidence > 0.5 && options.confidence < 1))
    return FieldError("confidence", "must be above 0.5 and below 1, or 0 for 0.9");
  return options;
}

absl::Status CheckCandidates(const v1::RankDevicesRequest& request, const Limits& limits) {
  if (request.candidates().empty()) return FieldError("candidates", "is empty; name at least one device");
  GPUETA_RETURN_IF_ERROR(CheckLimit("candidates", "devices", limits.devices, request.candidates_size()));
  for (int i = 0; i < request.candidates_size(); ++i) {
    const double price = request.candidates(i).price_per_hour();
    if (!(price >= 0) || std::isinf(price))
      return FieldError(fmt::format("candidates[{}].price_per_hour", i), "must be a price, or 0 if it is not known");
  }
  return absl::OkStatus();
}

// The question without its device.
absl::StatusOr<v1::PredictRequest> QuestionOf(const v1::RankDevicesRequest& request) {
  v1::PredictRequest question;
  *question.mutable_options() = request.options();
  switch (request.workload_case()) {
    case v1::RankDevicesRequest::kKernel: *question.mutable_kernel() = request.kernel(); break;
    case v1::RankDevicesRequest::kGraph: *question.mutable_graph() = request.graph(); break;
    case v1::RankDevicesRequest::kModel: *question.mutable_model() = request.model(); break;
    case v1::RankDevicesRequest::WORKLOAD_NOT_SET:
      return FieldError("workload", "is not set; give one of kernel, graph and model");
  }
  return question;
}

Quantiles Decode(const v1::Quantiles& q) { return {q.p50(), q.p90(), q.p99()}; }

// What a device says: in `ranked`, and as a candidate; nullopt where it cannot
// answer.
absl::StatusOr<std::optional<RankedCandidate>> Ask(const PredictContext& context, const v1::DeviceCandidate& asked,
                                                   const std::string& field, v1::PredictRequest& question,
                                                   PredictionCounts& counts, v1::RankedDevice& ranked) {
  ranked.set_device(asked.device().slug());
  const auto predictor = FindPredictor(context.devices, asked.device());
  if (!predictor.ok()) return InField(field + ".device", predictor.status());
  question.clear_devices();
  *question.add_devices() = asked.device();
  v1::PredictResponse answer;
  if (const absl::Status status = Predict(context, question, answer, counts); !status.ok()) {
    if (!absl::IsFailedPrecondition(status)) return status;
    ranked.mutable_status()->set_code(static_cast<int>(status.code()));
    ranked.mutable_status()->set_message(MessageOf(status));
    return std::nullopt;
  }
  const v1::DevicePrediction& prediction = answer.devices(0);
  *ranked.mutable_profile() = prediction.profile();
  RankedCandidate candidate;
  if (prediction.has_graph()) {
    *ranked.mutable_latency_us() = prediction.graph().latency_us();
    ranked.set_prediction_id(prediction.graph().prediction_id());
    candidate.fits = HasRoomFor((*predictor)->spec(), prediction.graph().memory_bytes());
  } else {
    *ranked.mutable_latency_us() = prediction.kernel().latency_us();
    ranked.set_prediction_id(prediction.kernel().prediction_id());
  }
  ranked.set_too_small(!candidate.fits);
  candidate.latency_us = Decode(ranked.latency_us());
  if (asked.price_per_hour() > 0) candidate.price_per_hour = asked.price_per_hour();
  return candidate;
}

}  // namespace

absl::Status RankDevices(const PredictContext& context, const v1::RankDevicesRequest& request,
                         v1::RankDevicesResponse& response, PredictionCounts& counts) {
  GPUETA_ASSIGN_OR_RETURN(const RankOptions options, OptionsOf(request));
  GPUETA_RETURN_IF_ERROR(CheckCandidates(request, context.limits));
  GPUETA_ASSIGN_OR_RETURN(v1::PredictRequest question, QuestionOf(request));
  response.set_request_id(request.request_id());
  std::vector<RankedCandidate> candidates;
  std::vector<v1::RankedDevice> able;
  std::vector<v1::RankedDevice> unable;
  for (int i = 0; i < request.candidates_size(); ++i) {
    v1::RankedDevice ranked;
    GPUETA_ASSIGN_OR_RETURN(
        const std::optional<RankedCandidate> candidate,
        Ask(context, request.candidates(i), fmt::format("candidates[{}]", i), question, counts, ranked));
    if (candidate.has_value()) candidates.push_back(*candidate);
    (candidate.has_value() ? able : unable).push_back(std::move(ranked));
  }
  const std::vector<DevicePlace> places = RankDevices(candidates, options);
  for (std::size_t i = 0; i < able.size(); ++i) {
    able[i].set_by_latency(places[i].by_latency);
    able[i].set_by_cost(places[i].by_cost);
    able[i].set_by_limit(places[i].by_limit);
    able[i].set_cost(places[i].cost);
    if (!options.limit_us.has_value()) continue;
    able[i].set_within_probability(places[i].within_probability);
    able[i].set_verdict(static_cast<v1::LimitVerdict>(static_cast<int>(places[i].meets) + 1));
  }
  std::ranges::stable_sort(able, {}, [&](const v1::RankedDevice& device) {
    return std::tuple(options.limit_us.has_value() ? device.by_limit() : device.by_latency(),
                      device.latency_us().p50());
  });
  for (v1::RankedDevice& device : able) *response.add_devices() = std::move(device);
  for (v1::RankedDevice& device : unable) *response.add_devices() = std::move(device);
  return absl::OkStatus();
}

}  // namespace gpueta
