// The answers of ObservationService.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/feedback/feedback.h"
#include "server/feedback/shadow_runs.h"
#include "server/limits.h"
#include "server/models/model_registry.h"
#include "server/serving_snapshot.h"

namespace gpueta::v1 {
class CalibrationTask;
class GetErrorSummaryRequest;
class GetErrorSummaryResponse;
class Observation;
class ObservationColumns;
class ReportObservationsRequest;
class ReportObservationsResponse;
}  // namespace gpueta::v1

namespace gpueta {

// The observations of one call.
class ObservationIntake {
 public:
  ObservationIntake(Feedback& feedback, ShadowRuns& shadows, const Limits& limits)
      : feedback_(&feedback), shadows_(&shadows), limits_(&limits) {}

  // Judges a message by what answers now. On error the call ends; the errors are
  // those of the proto.
  absl::Status Add(const ServingSnapshot& devices, const ModelTable& models,
                   const v1::ReportObservationsRequest& request);
  std::int64_t accepted() const { return accepted_; }
  void Fill(v1::ReportObservationsResponse& response) const;

 private:
  struct Context;
  // In the order of v1::RefusalReason.
  enum class Reason : std::uint8_t { kNone, kInvalid, kForged, kUnknown, kLate, kDuplicate, kAbsurd };
  static constexpr std::size_t kReasons = 7;

  void AddOne(const Context& context, const v1::Observation& message);
  absl::Status AddColumns(const Context& context, const v1::ObservationColumns& message);
  absl::Status AddColumnsById(const Context& context, const v1::ObservationColumns& message);
  absl::Status AddColumnsOfWork(const Context& context, const v1::ObservationColumns& message);
  void Take(const ObservedGroup& group, const std::vector<JudgedObservation>& observations,
            const std::vector<std::int64_t>& indices);
  void Refuse(std::int64_t index, Reason reason, std::string message, std::int64_t count = 1);

  Feedback* feedback_;
  ShadowRuns* shadows_;
  const Limits* limits_;
  std::int64_t next_index_ = 0;
  std::int64_t accepted_ = 0;
  std::int64_t refused_[kReasons] = {};
  struct Refusal {
    std::int64_t index;
    Reason reason;
    std::string message;
  };
  std::vector<Refusal> refusals_;  // the first ones
};

absl::Status GetErrorSummary(const Feedback& feedback, const v1::GetErrorSummaryRequest& request,
                             v1::GetErrorSummaryResponse& response);

// With the shapes asked for most.
void Encode(const CalibrationTask& task, const AskedShapes& shapes, v1::CalibrationTask& message);

}  // namespace gpueta
