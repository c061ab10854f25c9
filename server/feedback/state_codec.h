// What is kept of observations, as messages of the store.
#pragma once

#include <string>

#include "core/feedback/correction_learner.h"
#include "core/feedback/drift_detector.h"
#include "core/feedback/error_stats.h"
#include "server/feedback/error_cells.h"

namespace gpueta::server {
class StoredBucket;
class StoredDetector;
class StoredWatch;
}  // namespace gpueta::server

namespace gpueta {

void Encode(const ErrorCells::Bucket& bucket, server::StoredBucket& message);
CellKey KeyOf(const server::StoredBucket& message);
ErrorStats StatsOf(const server::StoredBucket& message);

void Encode(const DriftDetector& detector, server::StoredDetector& message);
DriftDetector Decode(const server::StoredDetector& message);

// The parts of a watch that are in messages of their own type elsewhere.
void Encode(const CorrectionLearner& learner, server::StoredWatch& message);
CorrectionLearner LearnerOf(const server::StoredWatch& message);
void Encode(const RecentErrors& recent, server::StoredWatch& message);
RecentErrors RecentOf(const server::StoredWatch& message);

}  // namespace gpueta
