// The answers of PredictionService about LLM engines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/serving/fleet.h"
#include "core/serving/served_model.h"
#include "server/limits.h"
#include "server/models/model_registry.h"
#include "server/serving_snapshot.h"

namespace gpueta::v1 {
class AdmitRequest;
class AdmitResponse;
class EngineKind;
class FitEngineOverheadRequest;
class FitEngineOverheadResponse;
class MaxBatchRequest;
class MaxBatchResponse;
class StreamAdmitRequest;
class StreamAdmitResponse;
}  // namespace gpueta::v1

namespace gpueta {

struct ServingContext {
  const ServingSnapshot& devices;
  const ModelTable& models;
  ServedModels& served;
  const Limits& limits;
  // True when nobody waits for the answer any more; asked before each
  // candidate.
  const std::function<bool()>& cancelled;
  // Whether tables that are not there may be made, which takes tens of
  // milliseconds each; else the answer is ABORTED, and nothing is lost by asking
  // again.
  bool may_build = true;
};

// The errors are those of the proto.
absl::Status Admit(const ServingContext& context, const v1::AdmitRequest& request, v1::AdmitResponse& response);
absl::Status MaxBatch(const ServingContext& context, const v1::MaxBatchRequest& request,
                      v1::MaxBatchResponse& response);
absl::Status FitEngineOverhead(const ServingContext& context, const v1::FitEngineOverheadRequest& request,
                               v1::FitEngineOverheadResponse& response);

// What one StreamAdmit call knows. Not thread-safe. An item goes through Change,
// and if that is OK through Judge.
class AdmitSession {
 public:
  explicit AdmitSession(const Limits& limits);
  ~AdmitSession();

  // On error nothing changed.
  absl::Status Change(const ServingContext& context, const v1::StreamAdmitRequest& request);
  // Fills the admissions, each with its status. Only CANCELLED and ABORTED are
  // errors of the item.
  absl::Status Judge(const ServingContext& context, const v1::StreamAdmitRequest& request,
                     v1::StreamAdmitResponse& response);

 private:
  Fleet fleet_;
  std::vector<v1::EngineKind> engines_;
};

}  // namespace gpueta
