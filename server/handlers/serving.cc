#include "server/handlers/serving.h"

#include <map>
#include <memory>
#include <utility>

#include "core/base/errors.h"
#include "core/wire/serving_codec.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/serving.pb.h"
#include "server/handlers/predict.h"
#include "server/status_details.h"

namespace gpueta {
namespace {

using google::protobuf::RepeatedPtrField;

// What an EngineKind or the like names.
struct Named {
  std::shared_ptr<const RegisteredModel> model;
  std::shared_ptr<const Predictor> predictor;
  std::string device;  // as ServedModels has it
};

// What answers for a device, by a name that another answer does not have.
std::string DeviceKey(const ServingSnapshot& devices, const v1::DeviceSelector& selector) {
  std::string key = fmt::format("{} {}", selector.slug(), devices.serial());
  for (const auto& [name, value] : std::map(selector.labels().begin(), selector.labels().end())) {
    key += fmt::format(" {}={}", name, value);
  }
  if (!selector.slice().empty()) key += " slice " + selector.slice();
  if (selector.has_spec()) key += " " + selector.spec().SerializeAsString();
  return key;
}

// The message names a model and a device.
template <class Message>
absl::StatusOr<Named> Find(const ServingContext& context, const Message& message) {
  Named named;
  GPUETA_ASSIGN_OR_RETURN(named.model, context.models.FindConfig("model", message.model()));
  auto predictor = FindPredictor(context.devices, message.device());
  if (!predictor.ok()) return InField("device", predictor.status());
  named.predictor = *std::move(predictor);
  named.device = DeviceKey(context.devices, message.device());
  return named;
}

absl::StatusOr<std::shared_ptr<const ServedModel>> Serve(const ServingContext& context, const Named& named,
                                                         const EngineSetup& setup, std::int64_t longest) {
  if (!context.may_build && !context.served.IsReady(*named.model->config, named.device, setup, longest)) {
    return absl::AbortedError("the steps of an engine are not tabulated yet");
  }
  return context.served.Serve(*named.model->config, named.device, *named.predictor, setup, longest);
}

FleetLimits FleetLimitsOf(const Limits& limits) {
  return {.replicas = limits.replicas, .requests = limits.engine_requests};
}

// Under the names that the server's limits have.
absl::Status NamingFleetLimit(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  const std::string field = FieldOf(status);
  if (field == "replicas") return NamingLimit(status, "replicas");
  if (field == "requests") return NamingLimit(status, "engine_requests");
  return status;
}

absl::Status CheckEngines(const ServingContext& context, const RepeatedPtrField<v1::EngineKind>& engines) {
  for (int i = 0; i < engines.size(); ++i) {
    const auto named = Find(context, engines[i]);
    if (!named.ok()) return InField(fmt::format("engines[{}]", i), named.status());
  }
  return absl::OkStatus();
}

absl::Status CheckDecisions(const Limits& limits, const Fleet& fleet, const std::vector<DescribedCandidate>& all) {
  std::int64_t decisions = 0;
  for (const DescribedCandidate& candidate : all) {
    decisions += static_cast<std::int64_t>(fleet.DecisionsFor(candidate)) + 1;
  }
  return CheckLimit("candidates times replicas", "decisions", limits.decisions, decisions);
}

std::vector<DescribedCandidate> CandidatesOf(const RepeatedPtrField<v1::Candidate>& messages) {
  std::vector<DescribedCandidate> candidates;
  candidates.reserve(static_cast<std::size_t>(messages.size()));
  for (const v1::Candidate& message : messages) candidates.push_back(wire::Decode(message));
  return candidates;
}

// By place; looked up once a call.
template <class Engines>
Fleet::FindServed FindServedOf(const ServingContext& context, const Engines& engines, const Fleet& fleet) {
  return [&context, &engines, &fleet, known = std::map<std::size_t, Named>()](
             std::size_t e, std::int64_t longest) mutable -> absl::StatusOr<std::shared_ptr<const ServedModel>> {
    auto at = known.find(e);
    if (at == known.end()) {
      GPUETA_ASSIGN_OR_RETURN(Named named, Find(context, engines[static_cast<int>(e)]));
      at = known.emplace(e, std::move(named)).first;
    }
    return Serve(context, at->second, fleet.engines()[e], longest);
  };
}

}  // namespace

absl::Status Admit(const ServingContext& context, const v1::AdmitRequest& request, v1::AdmitResponse& response) {
  GPUETA_RETURN_IF_ERROR(
      CheckLimit("replicas", "replicas", context.limits.replicas, static_cast<std::int64_t>(request.replicas_size())));
  if (request.replicas().empty()) return FieldError("replicas", "is empty; describe at least one");
  if (request.candidates().empty()) return FieldError("candidates", "is empty; give at least one");
  GPUETA_ASSIGN_OR_RETURN(FleetChange change, wire::Decode(request));
  GPUETA_RETURN_IF_ERROR(CheckEngines(context, request.engines()));
  Fleet fleet(FleetLimitsOf(context.limits));
  GPUETA_RETURN_IF_ERROR(NamingFleetLimit(fleet.Apply(std::move(change))));
  const std::vector<DescribedCandidate> candidates = CandidatesOf(request.candidates());
  GPUETA_RETURN_IF_ERROR(CheckDecisions(context.limits, fleet, candidates));
  const Fleet::FindServed find_served = FindServedOf(context, request.engines(), fleet);
  response.set_request_id(request.request_id());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (context.cancelled()) return absl::CancelledError("the caller went away");
    const auto admission = fleet.Judge(candidates[i], find_served);
    if (absl::IsAborted(admission.status())) return admission.status();
    if (!admission.ok()) return InField(fmt::format("candidates[{}]", i), admission.status());
    wire::Encode(*admission, *response.add_admissions());
  }
  return absl::OkStatus();
}

absl::Status MaxBatch(const ServingContext& context, const v1::MaxBatchRequest& request,
                      v1::MaxBatchResponse& response) {
  const auto in_engine = [](const absl::Status& status) { return InField("engine", status); };
  const auto setup = wire::Decode(request.engine());
  if (!setup.ok()) return in_engine(setup.status());
  const auto named = Find(context, request.engine());
  if (!named.ok()) return in_engine(named.status());
  const MaxBatchQuestion question = wire::Decode(request);
  GPUETA_RETURN_IF_ERROR(Check(question));
  const auto served = Serve(context, *named, *setup, LongestOf(question));
  if (absl::IsAborted(served.status())) return served.status();
  if (!served.ok()) return in_engine(served.status());
  GPUETA_ASSIGN_OR_RETURN(const MaxBatchAnswer answer, gpueta::MaxBatch(**served, *setup, question));
  response.set_request_id(request.request_id());
  response.set_device(request.engine().device().slug());
  if (const LoadedProfile* profile = named->predictor->profile(); profile != nullptr) {
    response.mutable_profile()->set_id(profile->id);
  }
  response.mutable_profile()->set_version(named->predictor->version());
  wire::Encode(**served, answer, response);
  return absl::OkStatus();
}

absl::Status FitEngineOverhead(const ServingContext& context, const v1::FitEngineOverheadRequest& request,
                               v1::FitEngineOverheadResponse& response) {
  GPUETA_ASSIGN_OR_RETURN(const Named named, Find(context, request));
  const auto deployment = wire::Decode(request.deployment());
  if (!deployment.ok()) return InField("deployment", deployment.status());
  std::int64_t sequences = 0;
  for (const v1::StepRecord& record : request.records()) {
    sequences += 1 + wire::SequencesOf(record.step());
  }
  GPUETA_RETURN_IF_ERROR(CheckLimit("sequences in records", "kernels", context.limits.kernels, sequences));
  const auto model = context.served.Model(*named.model->config, *deployment);
  if (!model.ok()) return InField("deployment", model.status());
  std::vector<ObservedStep> records;
  records.reserve(static_cast<std::size_t>(request.records_size()));
  for (const v1::StepRecord& record : request.records()) {
    auto step = wire::Decode(record.step());
    if (!step.ok()) return InField(fmt::format("records[{}].step", records.size()), step.status());
    records.push_back({.step = *std::move(step), .latency_us = record.latency_us()});
  }
  GPUETA_ASSIGN_OR_RETURN(const OverheadFit fit, FitOverhead(**model, *named.predictor, records));
  *response.mutable_overhead() = wire::Encode(fit.overhead);
  response.set_mape_before(fit.mape_before);
  response.set_mape_after(fit.mape_after);
  return absl::OkStatus();
}

AdmitSession::AdmitSession(const Limits& limits) : fleet_(FleetLimitsOf(limits)) {}
AdmitSession::~AdmitSession() = default;

absl::Status AdmitSession::Change(const ServingContext& context, const v1::StreamAdmitRequest& request) {
  GPUETA_RETURN_IF_ERROR(
      CheckLimit("replicas", "replicas", context.limits.replicas, static_cast<std::int64_t>(request.replicas_size())));
  GPUETA_RETURN_IF_ERROR(CheckLimit("candidates", "decisions", context.limits.decisions,
                                    static_cast<std::int64_t>(request.candidates_size())));
  GPUETA_ASSIGN_OR_RETURN(FleetChange change, wire::Decode(request));
  GPUETA_RETURN_IF_ERROR(CheckEngines(context, request.engines()));
  GPUETA_RETURN_IF_ERROR(NamingFleetLimit(fleet_.Apply(std::move(change))));
  if (!request.engines().empty()) engines_.assign(request.engines().begin(), request.engines().end());
  return absl::OkStatus();
}

absl::Status AdmitSession::Judge(const ServingContext& context, const v1::StreamAdmitRequest& request,
                                 v1::StreamAdmitResponse& response) {
  const std::vector<DescribedCandidate> candidates = CandidatesOf(request.candidates());
  const absl::Status allowed = CheckDecisions(context.limits, fleet_, candidates);
  const Fleet::FindServed find_served = FindServedOf(context, engines_, fleet_);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (context.cancelled()) return absl::CancelledError("the caller went away");
    v1::Admission& out = *response.add_admissions();
    out.set_candidate(candidates[i].id);
    if (!allowed.ok()) {
      EncodeStatus(allowed, *out.mutable_status());
      continue;
    }
    const auto admission = fleet_.Judge(candidates[i], find_served);
    if (absl::IsAborted(admission.status())) return admission.status();
    if (admission.ok()) {
      wire::Encode(*admission, out);
    } else {
      EncodeStatus(InField(fmt::format("candidates[{}]", i), admission.status()), *out.mutable_status());
    }
  }
  return absl::OkStatus();
}

}  // namespace gpueta
