// The answers of ProfileService.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/feedback/shadow_runs.h"
#include "server/limits.h"
#include "server/profiles/profile_registry.h"

namespace gpueta::v1 {
class PublishProfileRequest;
class ListProfilesRequest;
class ListProfilesResponse;
class GetProfileRequest;
class GetProfileResponse;
class ActivateProfileRequest;
class RollbackProfileRequest;
class ProfileEvent;
}  // namespace gpueta::v1

namespace gpueta {

// The parts of a PublishProfile call, put together.
class PublishAssembly {
 public:
  explicit PublishAssembly(const Limits& limits) : limits_(&limits) {}

  // INVALID_ARGUMENT for parts out of order, RESOURCE_EXHAUSTED as soon as the
  // file is or will be too large.
  absl::Status Add(const v1::PublishProfileRequest& part);

  // After the last part.
  absl::Status Publish(ProfileRegistry& registry, ShadowRuns& shadows, v1::ProfileInfo& response) const;

  const std::string& request_id() const { return request_id_; }

 private:
  const Limits* limits_;
  bool has_header_ = false;
  DeviceName parent_;
  bool activate_ = false;
  bool shadow_ = false;
  std::int64_t announced_bytes_ = 0;
  std::string request_id_;
  std::string file_;
};

// Compares a stored class profile with the one that answers for its device;
// nothing happens if it answers itself. NOT_FOUND if there is no such profile.
absl::Status StartShadow(const ProfileRegistry& registry, ShadowRuns& shadows, const ProfileName& name,
                         ShadowRole role);

// What a run in the shadow led to: its profile becomes the active one. One that
// is new leaves the one before it in its shadow; one from before is rolled back
// to. ABORTED if another profile than the run was compared with answers by now.
absl::StatusOr<ProfileInfo> TakeOver(ProfileRegistry& registry, ShadowRuns& shadows, const ShadowRun& run);

absl::Status ListProfiles(const ProfileRegistry& registry, const v1::ListProfilesRequest& request,
                          v1::ListProfilesResponse& response);
absl::Status GetProfile(const ProfileRegistry& registry, const v1::GetProfileRequest& request,
                        v1::GetProfileResponse& response);
absl::Status ActivateProfile(ProfileRegistry& registry, const v1::ActivateProfileRequest& request,
                             v1::ProfileInfo& response);
absl::Status RollbackProfile(ProfileRegistry& registry, const v1::RollbackProfileRequest& request,
                             v1::ProfileInfo& response);

void Encode(const ProfileEvent& event, v1::ProfileEvent& message);

// The device of a `devices/{slug}` parent; kAllDevices for `devices/-`.
absl::StatusOr<std::string> WatchedDevice(const std::string& parent);

}  // namespace gpueta
