#include "server/handlers/profiles.h"

#include "core/base/errors.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/feedback/prediction_id.h"
#include "server/handlers/page.h"

namespace gpueta {
namespace {

constexpr std::size_t kLargestChunk = std::size_t{1} << 20;  // as the proto says

static_assert(static_cast<int>(ProfileChange::kActive) + 1 == v1::ProfileEvent::TYPE_ACTIVE &&
              static_cast<int>(ProfileChange::kRolledBack) + 1 == v1::ProfileEvent::TYPE_ROLLED_BACK);

}  // namespace

absl::Status PublishAssembly::Add(const v1::PublishProfileRequest& part) {
  switch (part.part_case()) {
    case v1::PublishProfileRequest::kHeader: {
      if (has_header_) return FieldError("header", "is given twice");
      has_header_ = true;
      GPUETA_ASSIGN_OR_RETURN(parent_, ParseDeviceName("header.parent", part.header().parent()));
      activate_ = part.header().activate();
      shadow_ = part.header().shadow();
      if (shadow_ && activate_) return FieldError("header.shadow", "and activate exclude each other");
      if (shadow_ && !parent_.node.empty())
        return FieldError("header.shadow", "is for profiles of devices, not of nodes");
      announced_bytes_ = part.header().size_bytes();
      request_id_ = part.header().request_id();
      if (announced_bytes_ < 0) return FieldError("header.size_bytes", "is negative");
      return CheckLimit("header.size_bytes", "profile_bytes", limits_->profile_bytes, announced_bytes_);
    }
    case v1::PublishProfileRequest::kChunk:
      if (!has_header_) return FieldError("header", "must be the first message");
      if (part.chunk().size() > kLargestChunk) {
        return FieldError(
            "chunk", fmt::format("has {} bytes, at most {} are accepted at once", part.chunk().size(), kLargestChunk));
      }
      file_ += part.chunk();
      return CheckLimit("chunk", "profile_bytes", limits_->profile_bytes, static_cast<std::int64_t>(file_.size()));
    case v1::PublishProfileRequest::PART_NOT_SET: break;
  }
  return FieldError("part", "is not set; give header or chunk");
}

absl::Status PublishAssembly::Publish(ProfileRegistry& registry, ShadowRuns& shadows, v1::ProfileInfo& response) const {
  if (!has_header_) return FieldError("header", "is missing; it must be the first message");
  if (announced_bytes_ != 0 && announced_bytes_ != static_cast<std::int64_t>(file_.size())) {
    return FieldError("header.size_bytes",
                      fmt::format("is {}, but {} bytes arrived; send the file again", announced_bytes_, file_.size()));
  }
  GPUETA_ASSIGN_OR_RETURN(const ProfileInfo info, registry.Publish(parent_, file_, activate_));
  Encode(info, response);
  if (!shadow_) return absl::OkStatus();
  return StartShadow(registry, shadows, {{info.summary.key.device, ""}, info.summary.key.id}, ShadowRole::kNew);
}

absl::Status StartShadow(const ProfileRegistry& registry, ShadowRuns& shadows, const ProfileName& name,
                         ShadowRole role) {
  GPUETA_ASSIGN_OR_RETURN(const std::string file, registry.ReadFile(name));
  GPUETA_ASSIGN_OR_RETURN(LoadedProfile loaded, ParseProfile(file));
  const std::string device = name.parent.device;
  GPUETA_ASSIGN_OR_RETURN(const auto active, registry.Serving()->Find(device, {}));
  const std::uint64_t against = active->profile() == nullptr ? 0 : ProfileNumber(active->profile()->id);
  if (against == ProfileNumber(loaded.id)) return absl::OkStatus();
  GPUETA_ASSIGN_OR_RETURN(const auto alone, Snapshot::Build({{.loaded = std::move(loaded), .node = "", .version = 0}}));
  GPUETA_ASSIGN_OR_RETURN(auto predictor, alone->Find(device));
  shadows.Start(device,
                {.name = name, .predictor = std::move(predictor), .role = role, .against = against, .losses = {}});
  return absl::OkStatus();
}

absl::StatusOr<ProfileInfo> TakeOver(ProfileRegistry& registry, ShadowRuns& shadows, const ShadowRun& run) {
  const ProfileName active{run.name.parent, std::string(kActiveProfile)};
  const absl::StatusOr<ProfileInfo> before = registry.Get(active);
  GPUETA_ASSIGN_OR_RETURN(const auto answers, registry.Serving()->Find(run.name.parent.device, {}));
  const std::uint64_t number = answers->profile() == nullptr ? 0 : ProfileNumber(answers->profile()->id);
  if (number != run.against) {
    return absl::AbortedError(fmt::format("another profile of {} became active meanwhile", run.name.parent.device));
  }
  const std::string etag = before.ok() ? EtagOf(*before) : "";
  if (run.role == ShadowRole::kPrevious) return registry.Rollback(run.name.parent, etag);
  GPUETA_ASSIGN_OR_RETURN(ProfileInfo info, registry.Activate(run.name, etag));
  if (before.ok()) {
    StartShadow(registry, shadows, {run.name.parent, before->summary.key.id}, ShadowRole::kPrevious)
        .IgnoreError();  // one from a file that is gone
  }
  return info;
}

absl::StatusOr<std::string> WatchedDevice(const std::string& parent) {
  GPUETA_ASSIGN_OR_RETURN(const DeviceName name, ParseDeviceName("parent", parent));
  if (!name.node.empty()) return FieldError("parent", "names a node; give devices/SLUG or devices/-");
  return name.device;
}

absl::Status ListProfiles(const ProfileRegistry& registry, const v1::ListProfilesRequest& request,
                          v1::ListProfilesResponse& response) {
  GPUETA_ASSIGN_OR_RETURN(const std::string device, WatchedDevice(request.parent()));
  std::vector<v1::ProfileInfo> infos;
  for (const ProfileInfo& info : registry.List(device)) Encode(info, infos.emplace_back());
  std::sort(infos.begin(), infos.end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
  GPUETA_ASSIGN_OR_RETURN(const auto page, TakePage(
                                               infos, [](const auto& info) { return info.name(); }, request.page_size(),
                                               request.page_token()));
  for (const v1::ProfileInfo* info : page.items) *response.add_profiles() = *info;
  response.set_next_page_token(page.next_token);
  return absl::OkStatus();
}

absl::Status GetProfile(const ProfileRegistry& registry, const v1::GetProfileRequest& request,
                        v1::GetProfileResponse& response) {
  GPUETA_ASSIGN_OR_RETURN(const ProfileName name, ParseProfileName("name", request.name()));
  GPUETA_ASSIGN_OR_RETURN(const ProfileInfo info, registry.Get(name));
  Encode(info, *response.mutable_info());
  switch (request.view()) {
    case v1::GetProfileRequest::VIEW_UNSPECIFIED:
    case v1::GetProfileRequest::VIEW_BASIC: return absl::OkStatus();
    case v1::GetProfileRequest::VIEW_FULL: {
      // By id: the active profile may have changed since.
      GPUETA_ASSIGN_OR_RETURN(*response.mutable_file(), registry.ReadFile({name.parent, info.summary.key.id}));
      return absl::OkStatus();
    }
    default: return FieldError("view", "has an unknown value");
  }
}

absl::Status ActivateProfile(ProfileRegistry& registry, const v1::ActivateProfileRequest& request,
                             v1::ProfileInfo& response) {
  GPUETA_ASSIGN_OR_RETURN(const ProfileName name, ParseProfileName("name", request.name()));
  GPUETA_ASSIGN_OR_RETURN(const ProfileInfo info, registry.Activate(name, request.etag()));
  Encode(info, response);
  return absl::OkStatus();
}

absl::Status RollbackProfile(ProfileRegistry& registry, const v1::RollbackProfileRequest& request,
                             v1::ProfileInfo& response) {
  GPUETA_ASSIGN_OR_RETURN(const DeviceName parent, ParseDeviceName("parent", request.parent()));
  GPUETA_ASSIGN_OR_RETURN(const ProfileInfo info, registry.Rollback(parent, request.etag()));
  Encode(info, response);
  return absl::OkStatus();
}

void Encode(const ProfileEvent& event, v1::ProfileEvent& message) {
  message.set_type(static_cast<v1::ProfileEvent::Type>(static_cast<int>(event.change) + 1));
  Encode(event.profile, *message.mutable_profile());
}

}  // namespace gpueta
