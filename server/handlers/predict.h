// The answers of PredictionService to questions about latency, as functions of
// an immutable state and a request.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "core/serving/served_model.h"
#include "server/feedback/asked_shapes.h"
#include "server/feedback/correction_table.h"
#include "server/feedback/prediction_id.h"
#include "server/feedback/recent_kernels.h"
#include "server/limits.h"
#include "server/models/model_registry.h"
#include "server/prediction_counts.h"
#include "server/serving_snapshot.h"

namespace gpueta::v1 {
class DeviceSelector;
class PredictRequest;
class PredictResponse;
class ExplainRequest;
class ExplainResponse;
}  // namespace gpueta::v1

namespace gpueta {

// What ties answers to the observations of them.
struct PredictFeedback {
  const PredictionIds& ids;
  const CorrectionTable& corrections;
  AskedShapes& shapes;
  RecentKernels& kernels;
  std::uint32_t now_unix_s = 0;
};

// The predictor of a device as a caller names it. Errors name the field.
absl::StatusOr<std::shared_ptr<const Predictor>> FindPredictor(const ServingSnapshot& devices,
                                                               const v1::DeviceSelector& selector);

struct PredictContext {
  const ServingSnapshot& devices;
  const ModelTable& models;
  const Limits& limits;
  const PredictFeedback& feedback;
  ServedModels& served;
  // True when nobody waits for the answer any more; asked before each device.
  const std::function<bool()>& cancelled;
};

// Fills `response`, which must be empty, and adds to `counts`. On error the
// response and the counts are unspecified; the errors are those of the proto.
absl::Status Predict(const PredictContext& context, const v1::PredictRequest& request, v1::PredictResponse& response,
                     PredictionCounts& counts);

absl::Status Explain(const PredictContext& context, const v1::ExplainRequest& request, v1::ExplainResponse& response);

}  // namespace gpueta
