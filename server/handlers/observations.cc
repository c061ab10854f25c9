#include "server/handlers/observations.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/wire/enum_codec.h"
#include "core/wire/kernel_codec.h"
#include "core/wire/prediction_codec.h"
#include "gpueta/v1/observation.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/handlers/predict.h"

namespace gpueta {

namespace {

constexpr std::int64_t kOldestPrediction = 86400;  // seconds
constexpr std::int64_t kClockSkew = 60;            // of replicas
constexpr double kAbsurd = 100;
constexpr std::size_t kMostRefusals = 100;
constexpr std::size_t kChunk = 4096;  // observations for which predictions' threads never wait, but others do
constexpr std::size_t kMostShapes = 200;

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

std::uint64_t SerialOf(std::uint64_t serial, std::uint32_t row) {
  std::uint64_t x = serial + (row + std::uint64_t{1}) * 0x9E3779B97F4A7C15U;  // as splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  return x ^ (x >> 27);
}

bool IsLatency(double us) { return std::isfinite(us) && us > 0; }
bool IsAbsurd(double predicted_us, double observed_us) {
  return predicted_us > kAbsurd * observed_us || observed_us > kAbsurd * predicted_us;
}

// Of what observations say beside the latency, one by one or in columns.
template <class Message>
absl::Status CheckCircumstances(const Message& message) {
  if (!message.node().empty() && !IsName(message.node()))
    return FieldError("node", "must be 1 to 63 of [a-zA-Z0-9._-]");
  if (message.concurrency() < 0) return FieldError("concurrency", "must not be negative");
  if (!v1::Timing_IsValid(message.timing())) return FieldError("timing", "is no value of Timing");
  if (!message.has_work()) return absl::OkStatus();
  const v1::Timing asked = message.work().timing();
  if (!v1::Timing_IsValid(asked)) return FieldError("work.timing", "is no value of Timing");
  if (asked != v1::TIMING_UNSPECIFIED && message.timing() != v1::TIMING_UNSPECIFIED && asked != message.timing())
    return FieldError("timing", "differs from work.timing");
  return absl::OkStatus();
}

// The kind of latency that the work is to be predicted as.
template <class Message>
std::optional<Timing> TimingOfWork(const Message& message) {
  const v1::Timing timing =
      message.work().timing() != v1::TIMING_UNSPECIFIED ? message.work().timing() : message.timing();
  if (timing == v1::TIMING_UNSPECIFIED) return std::nullopt;
  return wire::Decode(timing);
}

constexpr char kLatencyProblem[] = "latency_us must be a positive number";
constexpr char kAbsurdProblem[] = "the latency is more than a hundred times off the prediction";

}  // namespace

// What one message is judged by.
struct ObservationIntake::Context {
  const ServingSnapshot& devices;
  const ModelTable& models;
  std::shared_ptr<const CorrectionTable> corrections;
  std::int64_t now = 0;
  mutable std::map<std::string, std::optional<std::uint64_t>, std::less<>> active;

  // The number of the profile that answers for a device; nullopt: no such
  // device.
  std::optional<std::uint64_t> ActiveProfile(std::string_view device) const {
    const auto known = active.find(device);
    if (known != active.end()) return known->second;
    const auto predictor = devices.Find(device, {});
    std::optional<std::uint64_t> number;
    if (predictor.ok()) number = (*predictor)->profile() == nullptr ? 0 : ProfileNumber((*predictor)->profile()->id);
    return active.emplace(std::string(device), number).first->second;
  }

  std::string ModelName(std::uint64_t number) const {
    if (number == 0) return "";
    const std::string prefix = fmt::format("{:016x}", number);
    const auto model = models.models().lower_bound(prefix);
    if (model == models.models().end() || !model->first.starts_with(prefix)) return kOther;  // not registered any more
    const std::vector<std::string> aliases = models.AliasesOf(model->first);
    return aliases.empty() ? prefix : aliases.front();
  }

  // The group of what `ticket` predicted.
  ObservedGroup GroupOf(const PredictionTicket& ticket, const std::string& node, int concurrency) const {
    ObservedGroup group;
    group.key = {.device = std::string(ticket.device),
                 .family = std::string(Name(ticket.family)),
                 .dtype = ticket.family == Family::kGraph ? "" : std::string(Name(ticket.dtype)),
                 .model = ModelName(ticket.model),
                 .provenance = std::string(Name(ticket.provenance)),
                 .node = node};
    group.family = ticket.family;
    const std::optional<std::uint64_t> profile = ActiveProfile(ticket.device);
    group.profile = profile.value_or(0);
    group.of_active_profile = profile == ticket.profile && ticket.device != kOther && concurrency == 0;
    return group;
  }
};

void ObservationIntake::Refuse(std::int64_t index, Reason reason, std::string message, std::int64_t count) {
  static constexpr const char* kNames[kReasons] = {"", "invalid", "forged", "unknown", "late", "duplicate", "absurd"};
  const auto r = static_cast<std::size_t>(reason);
  refused_[r] += count;
  // Feedback counts duplicates itself.
  if (reason != Reason::kDuplicate) feedback_->CountRefused(kNames[r], count);
  if (refusals_.size() < kMostRefusals) refusals_.push_back({index, reason, std::move(message)});
}

void ObservationIntake::Take(const ObservedGroup& group, const std::vector<JudgedObservation>& observations,
                             const std::vector<std::int64_t>& indices) {
  for (std::size_t start = 0; start < observations.size(); start += kChunk) {
    const std::size_t count = std::min(kChunk, observations.size() - start);
    bool is_new[kChunk];
    feedback_->Take(group, std::span(observations).subspan(start, count), std::span(is_new, count));
    for (std::size_t i = 0; i < count; ++i) {
      if (is_new[i]) {
        ++accepted_;
      } else {
        Refuse(indices[start + i], Reason::kDuplicate, "this prediction's observation was taken before");
      }
    }
  }
}

absl::Status ObservationIntake::Add(const ServingSnapshot& devices, const ModelTable& models,
                                    const v1::ReportObservationsRequest& request) {
  const Context context{devices, models, feedback_->Corrections(), feedback_->Now(), {}};
  switch (request.part_case()) {
    case v1::ReportObservationsRequest::kObservations:
      GPUETA_RETURN_IF_ERROR(CheckLimit("observations.observations", "observations", limits_->observations,
                                        request.observations().observations_size()));
      for (const v1::Observation& observation : request.observations().observations()) AddOne(context, observation);
      return absl::OkStatus();
    case v1::ReportObservationsRequest::kColumns: return InField("columns", AddColumns(context, request.columns()));
    case v1::ReportObservationsRequest::PART_NOT_SET: break;
  }
  return FieldError("part", "is not set; give observations or columns");
}

void ObservationIntake::AddOne(const Context& context, const v1::Observation& message) {
  const std::int64_t index = next_index_++;
  const double observed_us = message.latency_us();
  if (!IsLatency(observed_us)) return Refuse(index, Reason::kInvalid, kLatencyProblem);
  if (const absl::Status status = CheckCircumstances(message); !status.ok())
    return Refuse(index, Reason::kInvalid, std::string(MessageOf(status)));
  if (!(message.clock_mhz() >= 0 && std::isfinite(message.clock_mhz())))
    return Refuse(index, Reason::kInvalid, "clock_mhz must be a number of at least 0");

  PredictionTicket ticket;
  std::string id;  // holds the ticket's device
  std::optional<Kernel> observed;
  switch (message.subject_case()) {
    case v1::Observation::kPredictionId: {
      const auto opened = feedback_->ids().Open(message.prediction_id());
      if (!opened.has_value()) return Refuse(index, Reason::kForged, "prediction_id was not made by this server");
      ticket = *opened;
      if (ticket.rows > 0)
        return Refuse(index, Reason::kInvalid, "prediction_id is of columns; report it in ObservationColumns");
      if (context.now - ticket.issued_unix_s > kOldestPrediction || ticket.issued_unix_s > context.now + kClockSkew)
        return Refuse(index, Reason::kLate, "the prediction is more than a day old");
      if (message.timing() != v1::TIMING_UNSPECIFIED && ticket.has_timing &&
          wire::Decode(message.timing()) != ticket.timing)
        return Refuse(index, Reason::kInvalid, "timing differs from the prediction's");
      break;
    }
    case v1::Observation::kWork: {
      const v1::ObservedWork& work = message.work();
      const auto predictor = FindPredictor(context.devices, work.device());
      if (!predictor.ok()) return Refuse(index, Reason::kUnknown, "work.device." + MessageOf(predictor.status()));
      const auto kernel = wire::Decode(work.kernel());
      if (!kernel.ok()) return Refuse(index, Reason::kInvalid, "work.kernel." + MessageOf(kernel.status()));
      if (!work.model().empty() && !IsName(work.model()))
        return Refuse(index, Reason::kInvalid, "work.model must be 1 to 63 of [a-zA-Z0-9._-]");
      const LoadedProfile* profile = (*predictor)->profile();
      ticket.profile = profile == nullptr ? 0 : ProfileNumber(profile->id);
      id = work.device().has_spec() || !work.device().slice().empty() ? kOther : (*predictor)->spec().slug;
      ticket.device = id;
      EstimateOptions options;
      options.timing = TimingOfWork(message);
      options.corrections = context.corrections->Find(ticket.device, ticket.profile);
      const auto estimate = (*predictor)->EstimateKernel(*kernel, options);
      if (!estimate.ok()) return Refuse(index, Reason::kInvalid, "work.kernel: " + MessageOf(estimate.status()));
      ticket.family = FamilyOf(kernel->op());
      ticket.dtype = kernel->dtype;
      ticket.provenance = estimate->provenance;
      ticket.latency_us = estimate->latency_us;
      ticket.correction.factor.fill(static_cast<float>(estimate->correction));
      ticket.has_timing = options.timing.has_value();
      ticket.timing = options.timing.value_or(ticket.timing);
      observed = *kernel;
      break;
    }
    case v1::Observation::SUBJECT_NOT_SET: return Refuse(index, Reason::kInvalid, "give a prediction_id or the work");
  }
  ObservedGroup group = context.GroupOf(ticket, message.node(), message.concurrency());
  if (message.has_work()) group.key.model = message.work().model();
  if (ticket.device != kOther && !context.ActiveProfile(ticket.device).has_value())
    return Refuse(index, Reason::kUnknown, "the device is not known any more");
  if (IsAbsurd(ticket.latency_us.p50, observed_us)) return Refuse(index, Reason::kAbsurd, kAbsurdProblem);
  const double uncorrected_us = ticket.latency_us.p50 / static_cast<double>(ticket.correction.factor[0]);
  const std::int64_t before = accepted_;
  Take(group,
       {{.predicted_us = ticket.latency_us,
         .uncorrected_p50_us = uncorrected_us,
         .observed_us = observed_us,
         .serial = ticket.serial}},
       {index});
  if (accepted_ == before || !group.of_active_profile || !shadows_->kernels().wanted()) return;
  if (!observed.has_value()) observed = shadows_->kernels().Find(ticket.serial);
  if (!observed.has_value()) return;
  EstimateOptions options;
  if (ticket.has_timing) options.timing = ticket.timing;
  shadows_->Judge(group.key.device, group.profile, *observed, options, uncorrected_us, observed_us);
}

absl::Status ObservationIntake::AddColumns(const Context& context, const v1::ObservationColumns& message) {
  GPUETA_RETURN_IF_ERROR(CheckLimit("latency_us", "observations", limits_->observations, message.latency_us_size()));
  GPUETA_RETURN_IF_ERROR(CheckCircumstances(message));
  switch (message.subject_case()) {
    case v1::ObservationColumns::kPredictionId: return AddColumnsById(context, message);
    case v1::ObservationColumns::kWork: return InField("work", AddColumnsOfWork(context, message));
    case v1::ObservationColumns::SUBJECT_NOT_SET: break;
  }
  return FieldError("subject", "is not set; give a prediction_id or the work");
}

absl::Status ObservationIntake::AddColumnsById(const Context& context, const v1::ObservationColumns& message) {
  const int count = message.latency_us_size();
  for (const auto& [name, size] :
       {std::pair{"row", message.row_size()}, std::pair{"p50_us", message.p50_us_size()},
        std::pair{"p90_us", message.p90_us_size()}, std::pair{"p99_us", message.p99_us_size()}}) {
    if (size != count) return FieldError(name, fmt::format("has {} values, latency_us has {}", size, count));
  }
  const std::int64_t first = next_index_;
  next_index_ += count;
  const auto refuse_all = [&](Reason reason, const char* problem) {
    Refuse(first, reason, problem, count);
    return absl::OkStatus();
  };
  const auto ticket = feedback_->ids().Open(message.prediction_id());
  if (!ticket.has_value()) return refuse_all(Reason::kForged, "prediction_id was not made by this server");
  if (ticket->rows == 0) return refuse_all(Reason::kInvalid, "prediction_id is of one prediction, not of columns");
  if (context.now - ticket->issued_unix_s > kOldestPrediction || ticket->issued_unix_s > context.now + kClockSkew)
    return refuse_all(Reason::kLate, "the prediction is more than a day old");
  if (message.timing() != v1::TIMING_UNSPECIFIED && ticket->has_timing &&
      wire::Decode(message.timing()) != ticket->timing)
    return refuse_all(Reason::kInvalid, "timing differs from the prediction's");
  if (ticket->device != kOther && !context.ActiveProfile(ticket->device).has_value())
    return refuse_all(Reason::kUnknown, "the device is not known any more");

  std::vector<JudgedObservation> observations;
  std::vector<std::int64_t> indices;
  observations.reserve(static_cast<std::size_t>(count));
  indices.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const Quantiles told{message.p50_us(i), message.p90_us(i), message.p99_us(i)};
    const double observed_us = message.latency_us(i);
    if (!IsLatency(observed_us)) {
      Refuse(first + i, Reason::kInvalid, kLatencyProblem);
    } else if (message.row(i) >= ticket->rows) {
      Refuse(first + i, Reason::kUnknown, "the prediction has no such row");
    } else if (!IsLatency(told.p50) || !(told.p90 >= told.p50) || !(told.p99 >= told.p90) || !IsLatency(told.p99)) {
      Refuse(first + i, Reason::kInvalid, "p50_us, p90_us and p99_us must be what the prediction said");
    } else if (IsAbsurd(told.p50, observed_us)) {
      Refuse(first + i, Reason::kAbsurd, kAbsurdProblem);
    } else {
      observations.push_back({.predicted_us = told,
                              .uncorrected_p50_us = ticket->correction.IsNone()
                                                        ? told.p50
                                                        : WithoutCorrection(ticket->correction, told.p50),
                              .observed_us = observed_us,
                              .serial = SerialOf(ticket->serial, message.row(i))});
      indices.push_back(first + i);
    }
  }
  Take(context.GroupOf(*ticket, message.node(), message.concurrency()), observations, indices);
  return absl::OkStatus();
}

absl::Status ObservationIntake::AddColumnsOfWork(const Context& context, const v1::ObservationColumns& message) {
  const v1::ObservedWork& work = message.work();
  if (!work.model().empty() && !IsName(work.model())) return FieldError("model", "must be 1 to 63 of [a-zA-Z0-9._-]");
  const auto predictor = FindPredictor(context.devices, work.device());
  if (!predictor.ok()) return InField("device", predictor.status());
  const auto columns = wire::Decode(work.columns());
  if (!columns.ok()) return InField("columns", columns.status());
  if (static_cast<int>(columns->rows) != message.latency_us_size()) {
    return FieldError("columns",
                      fmt::format("has {} rows, latency_us has {}", columns->rows, message.latency_us_size()));
  }
  const LoadedProfile* profile = (*predictor)->profile();
  const std::string device =
      work.device().has_spec() || !work.device().slice().empty() ? kOther : (*predictor)->spec().slug;
  PredictionTicket ticket{.family = FamilyOf(columns->prototype.op()),
                          .dtype = columns->prototype.dtype,
                          .profile = profile == nullptr ? 0 : ProfileNumber(profile->id),
                          .device = device};
  EstimateOptions options;
  options.timing = TimingOfWork(message);
  options.corrections = context.corrections->Find(ticket.device, ticket.profile);
  if (options.corrections != nullptr) ticket.correction = options.corrections->Of(columns->prototype.op());
  std::vector<float> p50(columns->rows), p90(columns->rows), p99(columns->rows);
  std::vector<Provenance> provenance(columns->rows);
  ColumnsResult result{.p50_us = p50, .p90_us = p90, .p99_us = p99, .provenance = provenance};
  if (const absl::Status status = (*predictor)->EstimateColumns(*columns, options, result); !status.ok())
    return InField("columns", status);

  const std::int64_t first = next_index_;
  next_index_ += message.latency_us_size();
  std::map<Provenance, std::pair<std::vector<JudgedObservation>, std::vector<std::int64_t>>> groups;
  for (std::size_t i = 0; i < columns->rows; ++i) {
    const double observed_us = message.latency_us(static_cast<int>(i));
    const auto index = first + static_cast<std::int64_t>(i);
    if (!IsLatency(observed_us)) {
      Refuse(index, Reason::kInvalid, kLatencyProblem);
    } else if (IsAbsurd(p50[i], observed_us)) {
      Refuse(index, Reason::kAbsurd, kAbsurdProblem);
    } else {
      auto& [observations, indices] = groups[provenance[i]];
      observations.push_back(
          {.predicted_us = {p50[i], p90[i], p99[i]},
           .uncorrected_p50_us = ticket.correction.IsNone() ? p50[i] : WithoutCorrection(ticket.correction, p50[i]),
           .observed_us = observed_us});
      indices.push_back(index);
    }
  }
  for (const auto& [kind, rows] : groups) {
    ticket.provenance = kind;
    ObservedGroup group = context.GroupOf(ticket, message.node(), message.concurrency());
    group.key.model = work.model();
    Take(group, rows.first, rows.second);
    if (!group.of_active_profile || !shadows_->kernels().wanted()) continue;
    options.corrections = nullptr;
    Kernel kernel = columns->prototype;
    for (std::size_t i = 0; i < rows.first.size(); ++i) {
      SetRow(*columns, static_cast<std::size_t>(rows.second[i] - first), kernel);
      shadows_->Judge(device, group.profile, kernel, options, rows.first[i].uncorrected_p50_us,
                      rows.first[i].observed_us);
    }
  }
  return absl::OkStatus();
}

void ObservationIntake::Fill(v1::ReportObservationsResponse& response) const {
  response.set_accepted(accepted_);
  for (std::size_t r = 1; r < kReasons; ++r) {
    if (refused_[r] == 0) continue;
    auto& refused = *response.add_refused();
    refused.set_reason(static_cast<v1::RefusalReason>(r));
    refused.set_count(refused_[r]);
  }
  for (const Refusal& refusal : refusals_) {
    auto& out = *response.add_refusals();
    out.set_index(refusal.index);
    out.set_reason(static_cast<v1::RefusalReason>(refusal.reason));
    out.set_message(refusal.message);
  }
}

absl::Status GetErrorSummary(const Feedback& feedback, const v1::GetErrorSummaryRequest& request,
                             v1::GetErrorSummaryResponse& response) {
  ErrorQuery query;
  for (const int dimension : request.by()) {
    switch (dimension) {
      case v1::ERROR_DIMENSION_DEVICE: query.by_device = true; break;
      case v1::ERROR_DIMENSION_OP: query.by_family = true; break;
      case v1::ERROR_DIMENSION_DTYPE: query.by_dtype = true; break;
      case v1::ERROR_DIMENSION_MODEL: query.by_model = true; break;
      case v1::ERROR_DIMENSION_PROVENANCE: query.by_provenance = true; break;
      case v1::ERROR_DIMENSION_NODE: query.by_node = true; break;
      default: return FieldError("by", "has an unknown dimension");
    }
  }
  constexpr std::int64_t kDay = 86400;
  const std::int64_t now = feedback.Now();
  query.since_unix_s = request.since_unix_s() == 0 ? now - kDay : request.since_unix_s();
  if (query.since_unix_s < 0) return FieldError("since_unix_s", "is negative; give Unix seconds");
  if (query.since_unix_s > now) return FieldError("since_unix_s", "lies in the future");
  query.only = {request.device(), request.op(), request.dtype(), request.model(), request.provenance(), request.node()};
  for (const ErrorRow& row : feedback.Summaries(query)) {
    v1::ObservedErrors& out = *response.add_summaries();
    out.set_device(row.key.device);
    out.set_op(row.key.family);
    out.set_dtype(row.key.dtype);
    out.set_model(row.key.model);
    out.set_provenance(row.key.provenance);
    out.set_node(row.key.node);
    out.set_n(row.errors.n);
    out.set_mape(row.errors.mape);
    out.set_median(row.errors.median);
    out.set_ape_p90(row.errors.ape_p90);
    out.set_ape_p99(row.errors.ape_p99);
    out.set_bias(row.errors.bias);
    out.set_below_p50(row.errors.below_p50);
    out.set_below_p90(row.errors.below_p90);
    out.set_below_p99(row.errors.below_p99);
    out.set_drift(static_cast<v1::DriftState>(static_cast<int>(row.drift) + 1));
    if (row.correction.has_value()) {
      for (const float factor : row.correction->factor) out.add_corrections(factor);
    }
  }
  return absl::OkStatus();
}

void Encode(const CalibrationTask& task, const AskedShapes& shapes, v1::CalibrationTask& message) {
  message.set_name(fmt::format("devices/{}/calibrationTasks/{:016x}", task.device, task.id));
  message.set_device(task.device);
  message.set_op(std::string(Name(task.family)));
  message.set_node(task.node);
  message.set_reason(task.reason == TaskReason::kDrift ? v1::CalibrationTask::REASON_DRIFT
                                                       : v1::CalibrationTask::REASON_CORRECTION_AT_BOUND);
  message.set_ln_ratio(task.ln_ratio);
  message.set_created_unix_s(task.created_unix_s);
  if (task.family == Family::kGraph) return;
  for (const AskedShape& asked : shapes.Most(task.device, static_cast<Op>(task.family), kMostShapes)) {
    auto& shape = *message.add_shapes();
    *shape.mutable_kernel() = wire::Encode(asked.kernel);
    shape.set_weight(asked.weight);
  }
}

}  // namespace gpueta
