// The answer of PredictionService to which device is best.
#pragma once

#include "absl/status/status.h"
#include "server/handlers/predict.h"

namespace gpueta::v1 {
class RankDevicesRequest;
class RankDevicesResponse;
}  // namespace gpueta::v1

namespace gpueta {

// As Predict for each candidate; errors are those of the proto. What is wrong
// with the work or with a candidate's name is an error of the call, what a
// device cannot answer is its own.
absl::Status RankDevices(const PredictContext& context, const v1::RankDevicesRequest& request,
                         v1::RankDevicesResponse& response, PredictionCounts& counts);

}  // namespace gpueta
