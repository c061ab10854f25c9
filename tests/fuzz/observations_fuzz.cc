// The messages of a ReportObservations call and a question about errors, as bytes
// or made up: observations with ids of the server's own, whole or damaged, or with
// the work itself. They are judged, learnt from, kept and asked about.
#include <fuzzer/FuzzedDataProvider.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gpueta/v1/observation.pb.h"
#include "server/handlers/observations.h"
#include "server/logging.h"

namespace {

using namespace gpueta;

constexpr std::int64_t kNow = 1'800'000'000;
constexpr std::size_t kRows = 4096;  // a fuzzer gains nothing from more

// Keeps what feedback keeps.
class MemoryStore : public Store {
 public:
  absl::StatusOr<StoreContents> Load() override {
    StoreContents contents;
    for (const auto& [key, row] : rows_) contents.feedback.push_back(row);
    return contents;
  }
  absl::StatusOr<std::string> ReadProfileFile(const ProfileKey&) override { return absl::NotFoundError("none"); }
  absl::Status Commit(const StoreChange& change) override {
    for (const FeedbackRow& row : change.feedback) rows_[{row.kind, row.key}] = row;
    return absl::OkStatus();
  }

 private:
  std::map<std::pair<std::string, std::string>, FeedbackRow> rows_;
};

std::vector<std::string> MakeIds(const PredictionIds& ids) {
  const PredictionTicket kernel{.issued_unix_s = kNow, .latency_us = {100, 110, 150}, .device = "h100-sxm"};
  std::vector<PredictionTicket> tickets(8, kernel);
  tickets[1].family = Family::kGraph;
  tickets[1].model = 0x1234;
  tickets[2].rows = 4;
  tickets[3].rows = 1000;
  tickets[3].correction.factor = {0.5F, 1.5F, 2};
  tickets[3].corrected = true;
  tickets[4].issued_unix_s = kNow - 100'000;
  tickets[5].device = "gone";
  tickets[6].device = kOther;
  tickets[7].profile = 7;
  tickets[7].timing = Timing::kEager;
  tickets[7].has_timing = true;
  std::vector<std::string> made(tickets.size());
  for (std::size_t i = 0; i < tickets.size(); ++i) ids.Make(tickets[i], made[i]);
  return made;
}

using Ids = std::vector<std::string>;

std::string SomeId(FuzzedDataProvider& bytes, const Ids& ids) {
  std::string id = ids[bytes.ConsumeIntegralInRange<std::size_t>(0, ids.size() - 1)];
  if (bytes.ConsumeIntegralInRange(0, 15) == 0) id[bytes.ConsumeIntegral<std::uint8_t>() % id.size()] ^= 1;
  return id;
}

std::string SomeName(FuzzedDataProvider& bytes) {
  constexpr const char* kNames[] = {"", "", "node-1", "node-2", "no name"};
  return bytes.PickValueInArray(kNames);
}

double SomeLatency(FuzzedDataProvider& bytes) {
  constexpr double kLatencies[] = {0, -1, 1e-300, 1e300, HUGE_VAL, NAN, 100, 250};
  return bytes.ConsumeBool() ? bytes.ConsumeFloatingPointInRange(10.0, 1000.0) : bytes.PickValueInArray(kLatencies);
}

template <class Message>
void AddCircumstances(FuzzedDataProvider& bytes, Message& message) {
  message.set_node(SomeName(bytes));
  if (bytes.ConsumeIntegralInRange(0, 7) != 0) return;
  message.set_timing(static_cast<v1::Timing>(bytes.ConsumeIntegralInRange(-1, 5)));
  message.set_concurrency(bytes.ConsumeIntegralInRange(-1, 1));
}

void MakeWork(FuzzedDataProvider& bytes, v1::ObservedWork& work) {
  constexpr const char* kDevices[] = {"h100-sxm", "h100-sxm", "t4", "gone"};
  work.mutable_device()->set_slug(bytes.PickValueInArray(kDevices));
  if (bytes.ConsumeIntegralInRange(0, 15) == 0) work.mutable_device()->mutable_spec()->set_sm_count(5);
  work.set_timing(static_cast<v1::Timing>(bytes.ConsumeIntegralInRange(0, 3)));
  work.set_model(SomeName(bytes));
}

v1::Observation MakeObservation(FuzzedDataProvider& bytes, const Ids& ids) {
  v1::Observation observation;
  observation.set_latency_us(SomeLatency(bytes));
  AddCircumstances(bytes, observation);
  if (bytes.ConsumeBool()) {
    observation.set_prediction_id(SomeId(bytes, ids));
    return observation;
  }
  MakeWork(bytes, *observation.mutable_work());
  v1::Kernel& kernel = *observation.mutable_work()->mutable_kernel();
  kernel.set_dtype(static_cast<v1::DType>(bytes.ConsumeIntegralInRange(0, 8)));
  if (bytes.ConsumeBool()) {
    kernel.mutable_gemm()->set_m(bytes.ConsumeIntegral<std::int16_t>());
    kernel.mutable_gemm()->set_n(512);
    kernel.mutable_gemm()->set_k(512);
  } else {
    kernel.mutable_vector()->set_op("add");
    kernel.mutable_vector()->set_rows(bytes.ConsumeIntegral<std::int16_t>());
    kernel.mutable_vector()->set_cols(1000);
  }
  return observation;
}

// Enough rows to teach.
void MakeColumns(FuzzedDataProvider& bytes, const Ids& ids, v1::ObservationColumns& columns) {
  const int rows = bytes.ConsumeIntegralInRange(0, 300);
  const bool by_id = bytes.ConsumeBool();
  const double told = 100 * bytes.ConsumeFloatingPointInRange(0.1, 10.0);
  const double factor = bytes.ConsumeFloatingPointInRange(0.2, 5.0);
  for (int i = 0; i < rows; ++i) columns.add_latency_us(static_cast<float>(told * factor));
  if (rows > 0 && bytes.ConsumeBool()) columns.set_latency_us(rows / 2, static_cast<float>(SomeLatency(bytes)));
  AddCircumstances(bytes, columns);
  if (by_id) {
    columns.set_prediction_id(SomeId(bytes, ids));
    for (int i = 0; i < rows; ++i) {
      columns.add_row(static_cast<std::uint32_t>(i));
      columns.add_p50_us(static_cast<float>(told));
      columns.add_p90_us(static_cast<float>(1.1 * told));
      columns.add_p99_us(static_cast<float>(1.2 * told));
    }
    if (bytes.ConsumeIntegralInRange(0, 15) == 0) columns.add_p99_us(1);
    return;
  }
  MakeWork(bytes, *columns.mutable_work());
  v1::KernelColumns& work = *columns.mutable_work()->mutable_columns();
  work.set_dtype(v1::DTYPE_FP16);
  for (int i = 0; i < rows; ++i) work.mutable_gemm()->add_m(static_cast<std::uint32_t>(1 + i % 7));
  work.mutable_gemm()->add_n(bytes.ConsumeIntegral<std::uint32_t>());
  work.mutable_gemm()->add_k(bytes.ConsumeIntegral<std::uint16_t>());
}

v1::ReportObservationsRequest MakeReport(FuzzedDataProvider& bytes, const Ids& ids) {
  v1::ReportObservationsRequest report;
  if (bytes.ConsumeBool()) {
    MakeColumns(bytes, ids, *report.mutable_columns());
    return report;
  }
  const int kinds = bytes.ConsumeIntegralInRange(0, 3);
  for (int kind = 0; kind < kinds; ++kind) {
    const v1::Observation observation = MakeObservation(bytes, ids);
    const int times = bytes.ConsumeBool() ? 1 : bytes.ConsumeIntegralInRange(1, 200);
    for (int i = 0; i < times; ++i) *report.mutable_observations()->add_observations() = observation;
  }
  return report;
}

v1::GetErrorSummaryRequest MakeQuestion(FuzzedDataProvider& bytes) {
  v1::GetErrorSummaryRequest question;
  for (int i = 0; i < 3; ++i) question.add_by(static_cast<v1::ErrorDimension>(bytes.ConsumeIntegralInRange(0, 7)));
  question.set_node(SomeName(bytes));
  if (bytes.ConsumeBool()) question.set_since_unix_s(bytes.ConsumeIntegral<std::int64_t>());
  return question;
}

template <class Message>
Message Parse(FuzzedDataProvider& bytes) {
  Message message;
  (void)message.ParseFromString(bytes.ConsumeRandomLengthString());
  return message;
}

std::int64_t CountOf(const v1::ReportObservationsRequest& request) {
  return request.has_columns() ? request.columns().latency_us_size() : request.observations().observations_size();
}

void Check(const Feedback& feedback, std::int64_t accepted, const v1::GetErrorSummaryRequest& question) {
  std::int64_t n = 0;
  for (const ErrorRow& row : feedback.Summaries({.by_device = true, .by_family = true})) {
    n += row.errors.n;
    for (const double figure : {row.errors.mape, row.errors.median, row.errors.ape_p90, row.errors.ape_p99}) {
      if (!(figure >= 0) || !std::isfinite(figure)) std::abort();
    }
    if (!row.correction.has_value()) continue;
    for (const float factor : row.correction->factor) {
      if (!(factor >= kSmallestCorrection && factor <= kLargestCorrection)) std::abort();
    }
  }
  if (n != accepted) std::abort();
  v1::GetErrorSummaryResponse response;
  (void)GetErrorSummary(feedback, question, response);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  SetUpLogging(LogFormat::kText, LogLevel::kError);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<const ServingSnapshot> devices = ServingSnapshot::Build({}).value();
  static const ModelTable models;
  static const Limits limits;
  const Clock clock = [] { return std::chrono::system_clock::time_point(std::chrono::seconds(kNow)); };
  MemoryStore store;
  ShadowRuns shadows(ProfilePolicy::kManual, [](const ShadowRun&, ProfileStep) {});
  auto feedback = Feedback::Open(store, clock, limits).value();
  const Ids ids = MakeIds(feedback->ids());

  FuzzedDataProvider bytes(data, size);
  const bool made_up = bytes.ConsumeBool();
  const auto question = made_up ? MakeQuestion(bytes) : Parse<v1::GetErrorSummaryRequest>(bytes);
  ObservationIntake intake(*feedback, shadows, limits);
  std::int64_t reported = 0;
  while (bytes.remaining_bytes() > 0) {
    const auto report = made_up ? MakeReport(bytes, ids) : Parse<v1::ReportObservationsRequest>(bytes);
    if (static_cast<std::size_t>(CountOf(report)) > kRows) return 0;
    if (!intake.Add(*devices, models, report).ok()) break;
    reported += CountOf(report);
  }
  v1::ReportObservationsResponse response;
  intake.Fill(response);
  std::int64_t judged = response.accepted();
  for (const auto& refused : response.refused()) judged += refused.count();
  if (judged != reported) std::abort();
  Check(*feedback, response.accepted(), question);
  if (!feedback->Commit().ok()) std::abort();
  Check(*Feedback::Open(store, clock, limits).value(), response.accepted(), question);
  return 0;
}
