// Questions and answers as messages.
#pragma once

#include "absl/status/statusor.h"
#include "core/predict/estimate.h"
#include "core/predict/predictor.h"
#include "gpueta/v1/prediction.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/workload.pb.h"

namespace gpueta::wire {

v1::Provenance Encode(Provenance provenance);
v1::Bound Encode(Bound bound);

void Encode(const Quantiles& quantiles, v1::Quantiles& message);

// INVALID_ARGUMENT naming the field for a rate of a host that is neither 0
// (unknown) nor of this world.
absl::Status CheckHostRate(double value, std::string_view field);

// Errors of all Decode functions are INVALID_ARGUMENT naming the field.
absl::StatusOr<EstimateOptions> Decode(const v1::PredictOptions& message);
v1::PredictOptions Encode(const EstimateOptions& options);

// The columns point into the message, which must outlive them. The number of
// rows is the length of the longest column; that the lengths agree and the
// values are in range is checked by EstimateColumns.
absl::StatusOr<KernelColumns> Decode(const v1::KernelColumns& message);
// Extra padding of convolutions has no columns and is lost.
v1::KernelColumns Encode(const KernelColumns& columns);

// All fields but the name, which is the caller's.
void Encode(const Estimate& estimate, v1::KernelPrediction& message);
// An estimator this build does not know is called "other".
absl::StatusOr<Estimate> Decode(const v1::KernelPrediction& message);

void Encode(const GraphEstimate& estimate, v1::GraphPrediction& message);
absl::StatusOr<GraphEstimate> Decode(const v1::GraphPrediction& message);

// All fields but the profile.
void Encode(const Explanation& explanation, v1::ExplainResponse& message);
// Counts hold what the message has: FLOPs and bytes, the latter as read.
absl::StatusOr<Explanation> Decode(const v1::ExplainResponse& message);

}  // namespace gpueta::wire
