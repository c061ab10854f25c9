#include "server/handlers/predict.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/wire/graph_codec.h"
#include "core/wire/kernel_codec.h"
#include "core/wire/prediction_codec.h"
#include "core/wire/profile_codec.h"
#include "core/wire/serving_codec.h"
#include "gpueta/v1/prediction_service.pb.h"

namespace gpueta {
namespace {

using Predictors = std::vector<std::shared_ptr<const Predictor>>;

// What a caller's own data sheet must say for an estimate to mean anything.
absl::Status CheckSpec(const DeviceSpec& spec) {
  if (const absl::Status status = CheckPlausible(spec); !status.ok()) return FieldError("spec", MessageOf(status));
  if (spec.mem_bandwidth_gb_s == 0)
    return FieldError("spec.mem_bandwidth_gb_s", "is not set; it is needed for every estimate");
  if (spec.fp32_tflops == 0) return FieldError("spec.fp32_tflops", "is not set; it is needed for every estimate");
  return absl::OkStatus();
}

absl::StatusOr<Predictors> FindPredictors(const PredictContext& context, const v1::PredictRequest& request) {
  if (request.devices().empty()) return FieldError("devices", "is empty; name at least one device");
  GPUETA_RETURN_IF_ERROR(CheckLimit("devices", "devices", context.limits.devices, request.devices_size()));
  Predictors predictors;
  predictors.reserve(static_cast<std::size_t>(request.devices_size()));
  for (int i = 0; i < request.devices_size(); ++i) {
    auto found = FindPredictor(context.devices, request.devices(i));
    if (!found.ok()) return InField(fmt::format("devices[{}]", i), found.status());
    predictors.push_back(*std::move(found));
  }
  return predictors;
}

void EncodeProfile(const Predictor& predictor, v1::ProfileRef& ref) {
  if (predictor.profile() != nullptr) ref.set_id(predictor.profile()->id);
  ref.set_version(predictor.version());
}

struct Question {
  const PredictContext& context;
  const v1::PredictRequest& request;
  const Predictors& predictors;
  const EstimateOptions& options;
  v1::PredictResponse& response;
  PredictionCounts& counts;
};

// One device's turn to answer.
struct DeviceTurn {
  const Predictor& predictor;
  EstimateOptions options;  // with the device's corrections
  PredictionTicket ticket;  // what all answers of the turn share
  const PredictFeedback& feedback;
  bool is_described = false;  // by the caller
};

// What is observed of devices that callers describe themselves is not told
// apart: their names may mean anything.
constexpr std::string_view kDescribedDevice = "other";

DeviceTurn TurnOf(const PredictContext& context, const v1::PredictOptions& asked, const EstimateOptions& options,
                  const v1::DeviceSelector& selector, const Predictor& predictor) {
  DeviceTurn turn{predictor, options, {}, context.feedback, selector.has_spec() || !selector.slice().empty()};
  PredictionTicket& ticket = turn.ticket;
  ticket.has_timing = options.timing.has_value();
  ticket.timing = options.timing.value_or(Timing::kKernel);
  ticket.corrected = !asked.no_correction();
  ticket.issued_unix_s = context.feedback.now_unix_s;
  ticket.profile = predictor.profile() == nullptr ? 0 : ProfileNumber(predictor.profile()->id);
  ticket.device = turn.is_described ? kDescribedDevice : std::string_view(predictor.spec().slug);
  if (ticket.corrected) turn.options.corrections = context.feedback.corrections.Find(ticket.device, ticket.profile);
  return turn;
}

// Calls `answer` with each device's turn and place in the response.
template <class Answer>
absl::Status ForEachDevice(const Question& q, Answer answer) {
  for (int i = 0; i < q.request.devices_size(); ++i) {
    if (q.context.cancelled()) return absl::CancelledError("the caller went away");
    const Predictor& predictor = *q.predictors[static_cast<std::size_t>(i)];
    const v1::DeviceSelector& selector = q.request.devices(i);
    v1::DevicePrediction& prediction = *q.response.add_devices();
    prediction.set_device(selector.slug());
    EncodeProfile(predictor, *prediction.mutable_profile());
    const DeviceTurn turn = TurnOf(q.context, q.request.options(), q.options, selector, predictor);
    GPUETA_RETURN_IF_ERROR(answer(turn, prediction));
  }
  return absl::OkStatus();
}

std::uint64_t MakeId(const DeviceTurn& turn, PredictionTicket ticket, const Quantiles& latency_us, double correction,
                     std::string& id) {
  ticket.latency_us = latency_us;
  ticket.correction.factor.fill(static_cast<float>(correction));
  return turn.feedback.ids.Make(ticket, id);
}

void MakeId(const DeviceTurn& turn, const Kernel& kernel, const Estimate& estimate, std::string& id) {
  PredictionTicket ticket = turn.ticket;
  ticket.family = FamilyOf(kernel.op());
  ticket.dtype = kernel.dtype;
  ticket.provenance = estimate.provenance;
  const std::uint64_t serial = MakeId(turn, ticket, estimate.latency_us, estimate.correction, id);
  if (!turn.is_described) turn.feedback.kernels.Offer(serial, kernel);
}

void AnswerKernel(const DeviceTurn& turn, const Kernel& kernel, const Estimate& estimate, v1::KernelPrediction& out,
                  PredictionCounts& counts) {
  out.set_name(kernel.name);
  wire::Encode(estimate, out);
  MakeId(turn, kernel, estimate, *out.mutable_prediction_id());
  counts.Add(kernel.op(), estimate.provenance);
  if (!turn.is_described) turn.feedback.shapes.Offer(turn.ticket.device, kernel);
}

absl::Status PredictKernel(const Question& q) {
  auto kernel = wire::Decode(q.request.kernel());
  if (!kernel.ok()) return InField("kernel", kernel.status());
  return ForEachDevice(q, [&](const DeviceTurn& turn, v1::DevicePrediction& prediction) -> absl::Status {
    const auto estimate = turn.predictor.EstimateKernel(*kernel, turn.options);
    if (!estimate.ok()) return InField("kernel", estimate.status());
    AnswerKernel(turn, *kernel, *estimate, *prediction.mutable_kernel(), q.counts);
    return absl::OkStatus();
  });
}

absl::Status PredictBatch(const Question& q) {
  const auto& messages = q.request.kernels().kernels();
  GPUETA_RETURN_IF_ERROR(CheckLimit("kernels.kernels", "kernels", q.context.limits.kernels, messages.size()));
  std::vector<Kernel> kernels;
  kernels.reserve(static_cast<std::size_t>(messages.size()));
  const auto in_kernel = [](std::size_t i, const absl::Status& status) {
    return InField(fmt::format("kernels.kernels[{}]", i), status);
  };
  for (const v1::Kernel& message : messages) {
    auto kernel = wire::Decode(message);
    if (!kernel.ok()) return in_kernel(kernels.size(), kernel.status());
    kernels.push_back(*std::move(kernel));
  }
  return ForEachDevice(q, [&](const DeviceTurn& turn, v1::DevicePrediction& prediction) -> absl::Status {
    auto& out = *prediction.mutable_kernels()->mutable_kernels();
    out.Reserve(messages.size());
    std::vector<Estimate> estimates(kernels.size());
    const absl::Status status = turn.predictor.EstimateKernels(kernels, turn.options, estimates);
    if (!status.ok()) return InField("kernels", status);
    for (std::size_t i = 0; i < kernels.size(); ++i) AnswerKernel(turn, kernels[i], estimates[i], *out.Add(), q.counts);
    return absl::OkStatus();
  });
}

// Three floats a row, and a byte where provenance is asked for.
std::int64_t AnswerBytes(const v1::PredictRequest& request, std::size_t rows) {
  const std::int64_t row_bytes = 12 + (request.options().column_provenance() ? 1 : 0);
  return request.devices_size() * static_cast<std::int64_t>(rows) * row_bytes;
}

void CountRows(Op op, std::span<const Provenance> provenance, PredictionCounts& counts) {
  for (std::size_t p = 0; p < kProvenances; ++p) {
    const auto kind = static_cast<Provenance>(p);
    counts.Add(op, kind, std::count(provenance.begin(), provenance.end(), kind));
  }
}

// The id of a column, and the correction of its first row.
void NameColumns(const DeviceTurn& turn, const KernelColumns& columns, std::span<const Provenance> provenance,
                 v1::ColumnsPrediction& out) {
  PredictionTicket ticket = turn.ticket;
  ticket.family = FamilyOf(columns.prototype.op());
  ticket.dtype = columns.prototype.dtype;
  ticket.rows = static_cast<std::uint32_t>(columns.rows);
  out.set_correction(1);
  if (columns.rows > 0) {
    ticket.provenance = provenance[0];
    if (turn.options.corrections != nullptr) {
      ticket.correction = turn.options.corrections->Of(columns.prototype.op());
      const double first = out.p50_us(0);
      out.set_correction(first / WithoutCorrection(ticket.correction, first));
    }
  }
  turn.feedback.ids.Make(ticket, *out.mutable_prediction_id());
  if (!turn.is_described) turn.feedback.shapes.Offer(turn.ticket.device, columns);
}

absl::Status PredictColumns(const Question& q) {
  auto decoded = wire::Decode(q.request.columns());
  if (!decoded.ok()) return InField("columns", decoded.status());
  const KernelColumns& columns = *decoded;
  const Limits& limits = q.context.limits;
  GPUETA_RETURN_IF_ERROR(
      CheckLimit("columns", "column_rows", limits.column_rows, static_cast<std::int64_t>(columns.rows)));
  GPUETA_RETURN_IF_ERROR(CheckLimit("bytes of the answer (devices times rows)", "message_bytes", limits.message_bytes,
                                    AnswerBytes(q.request, columns.rows)));
  // Kept between calls: a stream of columns allocates nothing a row.
  static thread_local std::vector<Provenance> provenance;
  provenance.resize(columns.rows);
  return ForEachDevice(q, [&](const DeviceTurn& turn, v1::DevicePrediction& prediction) -> absl::Status {
    v1::ColumnsPrediction& out = *prediction.mutable_columns();
    const auto column = [&columns](google::protobuf::RepeatedField<float>* field) {
      field->Resize(static_cast<int>(columns.rows), 0);
      return std::span<float>(field->mutable_data(), columns.rows);
    };
    ColumnsResult result{.p50_us = column(out.mutable_p50_us()),
                         .p90_us = column(out.mutable_p90_us()),
                         .p99_us = column(out.mutable_p99_us()),
                         .provenance = provenance};
    const absl::Status status = turn.predictor.EstimateColumns(columns, turn.options, result);
    if (!status.ok()) return InField("columns", status);
    out.set_estimator(result.estimator.data(), result.estimator.size());
    if (q.request.options().column_provenance()) {
      out.mutable_provenance()->Reserve(static_cast<int>(columns.rows));
      for (const Provenance p : provenance) out.add_provenance(wire::Encode(p));
    }
    NameColumns(turn, columns, provenance, out);
    CountRows(columns.prototype.op(), provenance, q.counts);
    return absl::OkStatus();
  });
}

// Of a graph: what most of its latency rests on.
Provenance MainProvenance(const GraphEstimate& estimate) {
  const auto most = std::max_element(estimate.provenance.begin(), estimate.provenance.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == estimate.provenance.end() ? Provenance::kRoofline : most->first;
}

// `model`: the hash of a registered model, or empty.
void NameGraph(const DeviceTurn& turn, const GraphEstimate& estimate, std::string_view model, std::string& id) {
  PredictionTicket ticket = turn.ticket;
  ticket.family = Family::kGraph;
  ticket.provenance = MainProvenance(estimate);
  ticket.model = ProfileNumber(model.substr(0, 16));
  MakeId(turn, ticket, estimate.latency_us, estimate.correction, id);
}

void CountParts(const Question& q, const DeviceTurn& turn, const GraphEstimate& estimate) {
  for (const GraphPart& part : estimate.parts) {
    q.counts.Add(part.kernel.op(), part.estimate.provenance, part.count);
    if (!turn.is_described) turn.feedback.shapes.Offer(turn.ticket.device, part.kernel);
  }
}

// `model` as above.
absl::Status PredictGraph(const Question& q, std::string_view field, const Graph& graph,
                          const google::protobuf::Map<std::string, google::protobuf::int64>& dims,
                          std::string_view model) {
  const SymbolValues values(dims.begin(), dims.end());
  return ForEachDevice(q, [&](const DeviceTurn& turn, v1::DevicePrediction& prediction) -> absl::Status {
    const auto estimate = turn.predictor.EstimateGraph(graph, values, turn.options);
    if (!estimate.ok()) return InField(field, estimate.status());
    wire::Encode(*estimate, *prediction.mutable_graph());
    NameGraph(turn, *estimate, model, *prediction.mutable_graph()->mutable_prediction_id());
    CountParts(q, turn, *estimate);
    return absl::OkStatus();
  });
}

absl::Status PredictSteps(const Question& q) {
  const v1::StepWork& work = q.request.steps();
  GPUETA_ASSIGN_OR_RETURN(const auto registered, q.context.models.FindConfig("steps.model", work.model()));
  const auto deployment = wire::Decode(work.deployment());
  if (!deployment.ok()) return InField("steps.deployment", deployment.status());
  const EngineOverhead overhead = wire::Decode(work.overhead());
  GPUETA_RETURN_IF_ERROR(InField("steps.overhead", Check(overhead)));
  if (work.steps().empty()) return FieldError("steps.steps", "is empty; give at least one step");
  std::int64_t sequences = 0;
  for (const v1::EngineStep& step : work.steps()) sequences += wire::SequencesOf(step);
  GPUETA_RETURN_IF_ERROR(
      CheckLimit("sequences in steps.steps", "kernels", q.context.limits.kernels, sequences + work.steps_size()));
  const auto model = q.context.served.Model(*registered->config, *deployment);
  if (!model.ok()) return InField("steps.deployment", model.status());
  return ForEachDevice(q, [&](const DeviceTurn& turn, v1::DevicePrediction& prediction) -> absl::Status {
    v1::StepsPrediction& out = *prediction.mutable_steps();
    out.mutable_warnings()->Assign((*model)->warnings().begin(), (*model)->warnings().end());
    for (int i = 0; i < work.steps_size(); ++i) {
      const auto in_step = [i](const absl::Status& status) {
        return InField(fmt::format("steps.steps[{}]", i), status);
      };
      const auto step = wire::Decode(work.steps(i));
      if (!step.ok()) return in_step(step.status());
      const auto estimate = (*model)->Estimate(*step, turn.predictor, overhead, turn.options);
      if (!estimate.ok()) return in_step(estimate.status());
      v1::StepPrediction& answer = *out.add_steps();
      wire::Encode(*estimate, overhead.Of(step->tokens()), answer);
      NameGraph(turn, *estimate, registered->hash, *answer.mutable_prediction_id());
      CountParts(q, turn, *estimate);
    }
    return absl::OkStatus();
  });
}

}  // namespace

namespace {

absl::StatusOr<std::shared_ptr<const Predictor>> FindWhole(const ServingSnapshot& devices,
                                                           const v1::DeviceSelector& selector) {
  if (selector.has_spec()) {
    DeviceSpec spec = wire::Decode(selector.spec());
    if (!selector.slug().empty()) spec.slug = selector.slug();
    GPUETA_RETURN_IF_ERROR(CheckSpec(spec));
    return devices.profiles().ForSpec(spec);
  }
  if (selector.slug().empty()) return FieldError("slug", "is empty; name a device, or give a spec");
  auto found = devices.Find(selector.slug(), {selector.labels().begin(), selector.labels().end()});
  if (!found.ok()) return InField("slug", found.status());
  return found;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Predictor>> FindPredictor(const ServingSnapshot& devices,
                                                               const v1::DeviceSelector& selector) {
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const Predictor> whole, FindWhole(devices, selector));
  if (selector.slice().empty()) return whole;
  auto part = whole->Slice(selector.slice());
  if (!part.ok()) return InField("slice", part.status());
  return part;
}

absl::Status Predict(const PredictContext& context, const v1::PredictRequest& request, v1::PredictResponse& response,
                     PredictionCounts& counts) {
  if (context.cancelled()) return absl::CancelledError("the caller went away");
  const auto options = wire::Decode(request.options());
  if (!options.ok()) return InField("options", options.status());
  GPUETA_ASSIGN_OR_RETURN(const Predictors predictors, FindPredictors(context, request));
  response.set_request_id(request.request_id());
  const Question question{context, request, predictors, *options, response, counts};
  switch (request.workload_case()) {
    case v1::PredictRequest::kKernel: return PredictKernel(question);
    case v1::PredictRequest::kKernels: return PredictBatch(question);
    case v1::PredictRequest::kColumns: return PredictColumns(question);
    case v1::PredictRequest::kGraph: {
      GPUETA_RETURN_IF_ERROR(CheckLimit("graph.graph.nodes", "graph_nodes", context.limits.graph_nodes,
                                        request.graph().graph().nodes_size()));
      const auto graph = wire::Decode(request.graph().graph());
      if (!graph.ok()) return InField("graph.graph", graph.status());
      return PredictGraph(question, "graph", *graph, request.graph().dims(), "");
    }
    case v1::PredictRequest::kModel: {
      GPUETA_ASSIGN_OR_RETURN(const auto model, context.models.Find("model.model", request.model().model()));
      return PredictGraph(question, "model", model->graph, request.model().dims(), model->hash);
    }
    case v1::PredictRequest::kSteps: return PredictSteps(question);
    case v1::PredictRequest::WORKLOAD_NOT_SET: break;
  }
  return FieldError("workload", "is not set; give one of kernel, kernels, columns, graph, model and steps");
}

absl::Status Explain(const PredictContext& context, const v1::ExplainRequest& request, v1::ExplainResponse& response) {
  const auto predictor = FindPredictor(context.devices, request.device());
  if (!predictor.ok()) return InField("device", predictor.status());
  const auto options = wire::Decode(request.options());
  if (!options.ok()) return InField("options", options.status());
  const auto kernel = wire::Decode(request.kernel());
  if (!kernel.ok()) return InField("kernel", kernel.status());
  const DeviceTurn turn = TurnOf(context, request.options(), *options, request.device(), **predictor);
  const auto explanation = (*predictor)->Explain(*kernel, turn.options);
  if (!explanation.ok()) return InField("kernel", explanation.status());
  wire::Encode(*explanation, response);
  response.mutable_prediction()->set_name(kernel->name);
  MakeId(turn, *kernel, explanation->estimate, *response.mutable_prediction()->mutable_prediction_id());
  EncodeProfile(**predictor, *response.mutable_profile());
  return absl::OkStatus();
}

}  // namespace gpueta
