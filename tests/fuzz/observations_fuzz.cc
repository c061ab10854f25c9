// Bytes as a question about errors and the messages of a ReportObservations call,
// each behind its length. Observations are judged, learnt from, kept and asked
// about. A prediction id of one byte stands for one that the server made.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
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

template <class Message>
void Authenticate(const std::vector<std::string>& ids, Message& message) {
  if (message.prediction_id().size() == 1)
    message.set_prediction_id(ids[static_cast<std::uint8_t>(message.prediction_id()[0]) % ids.size()]);
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

std::string_view TakeMessage(std::string_view& left) {
  if (left.size() < 2) return {};
  const std::size_t length = static_cast<std::uint8_t>(left[0]) + 256U * static_cast<std::uint8_t>(left[1]);
  const std::string_view bytes = left.substr(2, length);
  left.remove_prefix(2 + bytes.size());
  return bytes;
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
  const std::vector<std::string> ids = MakeIds(feedback->ids());

  std::string_view left(reinterpret_cast<const char*>(data), size);
  const std::string_view asked = TakeMessage(left);
  v1::GetErrorSummaryRequest question;
  if (!question.ParseFromArray(asked.data(), static_cast<int>(asked.size()))) return 0;
  ObservationIntake intake(*feedback, shadows, limits);
  std::int64_t reported = 0;
  while (!left.empty()) {
    const std::string_view bytes = TakeMessage(left);
    if (bytes.empty()) break;
    v1::ReportObservationsRequest request;
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return 0;
    if (static_cast<std::size_t>(CountOf(request)) > kRows) return 0;
    if (request.has_columns()) Authenticate(ids, *request.mutable_columns());
    if (request.has_observations()) {
      for (v1::Observation& observation : *request.mutable_observations()->mutable_observations())
        Authenticate(ids, observation);
    }
    if (!intake.Add(*devices, models, request).ok()) break;
    reported += CountOf(request);
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
