// The gRPC services: thin adapters from calls to handlers.
#pragma once

#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "core/serving/served_model.h"
#include "server/feedback/feedback.h"
#include "server/feedback/shadow_runs.h"
#include "server/limits.h"
#include "server/metrics/metrics.h"
#include "server/models/model_registry.h"
#include "server/profiles/profile_registry.h"
#include "server/rpc/work_queue.h"

namespace gpueta {

template <class Event>
class EventWatches;
namespace v1 {
class CalibrationTask;
class ProfileEvent;
}  // namespace v1
using ProfileWatches = EventWatches<v1::ProfileEvent>;
using TaskWatches = EventWatches<v1::CalibrationTask>;

// What the services work on; all of it must outlive the server.
struct ServiceParts {
  ProfileRegistry& profiles;
  ModelRegistry& models;
  Feedback& feedback;
  ShadowRuns& shadows;
  Metrics& metrics;
  WorkQueue& work;
  WorkQueue& intake;  // of observations
  WorkQueue& tables;  // making what ServedModels lacks, and answering with it
  ServedModels& served;
  const Limits& limits;
};

// Predictions run on the thread that received them, and so do decisions about
// engines once their steps are tabulated. Whatever touches the disk, or waits
// for what does, runs on the work queue.
std::unique_ptr<grpc::Service> MakePredictionService(ServiceParts parts);
std::unique_ptr<grpc::Service> MakeProfileService(ServiceParts parts, ProfileWatches& watches, TaskWatches& tasks);
std::unique_ptr<grpc::Service> MakeObservationService(ServiceParts parts);

// Why a call that nobody waits for is given up: DEADLINE_EXCEEDED or
// CANCELLED; OK as long as somebody waits.
absl::Status CheckWanted(grpc::CallbackServerContext& context);

}  // namespace gpueta
