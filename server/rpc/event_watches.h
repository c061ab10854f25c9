// The WatchProfiles calls that are open.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "server/limits.h"
#include "server/profiles/profile_registry.h"
#include "server/rpc/call_record.h"
#include "server/rpc/work_queue.h"

namespace gpueta::v1 {
class ProfileEvent;
}

namespace gpueta {

// Safe to use from any thread. Everything given must outlive the calls.
class ProfileWatches {
 public:
  ProfileWatches(ProfileRegistry& registry, WorkQueue& work, const Limits& limits)
      : registry_(&registry), work_(&work), limits_(&limits) {}

  // A call that writes an event for each active profile of `parent`
  // (`devices/{slug}` or `devices/-`) and then for each change; ended with
  // RESOURCE_EXHAUSTED when more than limits.pending_events changes wait to be
  // written.
  grpc::ServerWriteReactor<v1::ProfileEvent>* Start(const std::string& parent, std::unique_ptr<CallRecord> record);

  // Ends all calls, and those to come, with UNAVAILABLE: the server stops.
  void End();

 private:
  class Watch;

  ProfileRegistry* registry_;
  WorkQueue* work_;
  const Limits* limits_;
  std::mutex mutex_;
  std::set<Watch*> open_;
  bool ended_ = false;
};

}  // namespace gpueta
