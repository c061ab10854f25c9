// Engines, their states and what is decided about them as messages.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/serving/engine_step.h"
#include "core/serving/fleet.h"
#include "core/serving/served_model.h"
#include "gpueta/v1/serving.pb.h"

namespace gpueta::wire {

// Errors of all Decode functions are INVALID_ARGUMENT naming the field. Counts
// that are 0 take their default where the proto has one.

absl::StatusOr<Deployment> Decode(const v1::Deployment& message);
v1::Deployment Encode(const Deployment& deployment);

EngineOverhead Decode(const v1::EngineOverhead& message);
v1::EngineOverhead Encode(const EngineOverhead& overhead);

// What may stand in its lists is checked by StepModel::Estimate.
absl::StatusOr<EngineStep> Decode(const v1::EngineStep& message);
// Chunks and decoding sequences, listed or counted.
std::int64_t SequencesOf(const v1::EngineStep& message);
v1::EngineStep Encode(const EngineStep& step);

// All but the model and the device, which are names. Checked.
absl::StatusOr<EngineSetup> Decode(const v1::EngineKind& message);
void Encode(const EngineSetup& setup, v1::EngineKind& message);

LatencyLimits Decode(const v1::LatencyLimits& message);
v1::LatencyLimits Encode(const LatencyLimits& limits);

// States and candidates are checked by Fleet.
absl::StatusOr<DescribedReplica> Decode(const v1::Replica& message);
v1::Replica Encode(const DescribedReplica& described);
DescribedCandidate Decode(const v1::Candidate& message);
v1::Candidate Encode(const DescribedCandidate& candidate);

// Of engines all but models and devices.
absl::StatusOr<FleetChange> Decode(const v1::AdmitRequest& message);
absl::StatusOr<FleetChange> Decode(const v1::StreamAdmitRequest& message);

void Encode(const Admission& admission, v1::Admission& message);

// All but the engine.
MaxBatchQuestion Decode(const v1::MaxBatchRequest& message);
void Encode(const MaxBatchQuestion& question, v1::MaxBatchRequest& message);
// All but the device and its profile.
void Encode(const ServedModel& served, const MaxBatchAnswer& answer, v1::MaxBatchResponse& message);

// A step with this much overhead in it. All but the id.
void Encode(const GraphEstimate& step, double overhead_us, v1::StepPrediction& message);

}  // namespace gpueta::wire
