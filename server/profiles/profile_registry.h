// The profiles a server knows, and which of them answer: those from files,
// read-only, and those published to the store, which win over files of the
// same device and labels.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/catalogue.h"
#include "core/profile/profile.h"
#include "server/clock.h"
#include "server/limits.h"
#include "server/profiles/profile_info.h"
#include "server/profiles/resource_name.h"
#include "server/serving_snapshot.h"
#include "server/snapshot_pointer.h"
#include "server/store/store.h"

namespace gpueta {

enum class ProfileChange { kActive, kPublished, kActivated, kRolledBack };

struct ProfileEvent {
  ProfileChange change;
  ProfileInfo profile;
};

// Safe to use from any thread. Serving() never waits; the other calls wait for
// each other and for the disk.
class ProfileRegistry {
 public:
  // Reads what the store has. Files of one device with the same labels and
  // stored profiles that cannot be read are logged and left out. `store` and
  // `catalogue` must outlive the registry.
  static absl::StatusOr<std::unique_ptr<ProfileRegistry>> Open(Store& store, std::vector<LoadedProfile> files,
                                                               Clock clock, const Limits& limits,
                                                               const Catalogue& catalogue = Catalogue::BuiltIn());

  std::shared_ptr<const ServingSnapshot> Serving() const { return serving_.Read(); }

  // Validates, stores and, if asked, activates. Content that is already stored
  // for this device or node is not stored again. Errors as ParseProfile,
  // ValidateProfile and Store; nothing changed then.
  absl::StatusOr<ProfileInfo> Publish(const DeviceName& parent, std::string_view file, bool activate);

  // NOT_FOUND, ABORTED (etag), FAILED_PRECONDITION (nothing to go back to, a
  // profile from a file); nothing changed then.
  absl::StatusOr<ProfileInfo> Activate(const ProfileName& name, const std::string& etag);
  absl::StatusOr<ProfileInfo> Rollback(const DeviceName& parent, const std::string& etag);

  // Sorted by device, node and id. `device` may be kAllDevices.
  std::vector<ProfileInfo> List(const std::string& device) const;
  absl::StatusOr<ProfileInfo> Get(const ProfileName& name) const;
  absl::StatusOr<std::string> ReadFile(const ProfileName& name) const;

  // `on_event` is called for every active profile of the device (or
  // kAllDevices) before Subscribe returns, then for every change, in order, by
  // the thread that makes the change; it must not call the registry. After
  // Unsubscribe it is not called again.
  using OnEvent = std::function<void(const ProfileEvent&)>;
  std::int64_t Subscribe(const std::string& device, OnEvent on_event);
  void Unsubscribe(std::int64_t subscription);

  // How often the profiles that answer have been replaced.
  std::int64_t swaps() const { return swaps_.load(std::memory_order_relaxed); }

 private:
  // One device or one of its nodes.
  using Place = std::pair<std::string, std::string>;
  struct File {
    std::shared_ptr<const LoadedProfile> loaded;
    ProfileSummary summary;
  };
  struct Subscription {
    std::string device;
    OnEvent on_event;
  };

  ProfileRegistry(Store& store, Clock clock, const Limits& limits, const Catalogue& catalogue);

  absl::Status Load(std::vector<LoadedProfile> files);
  void AddFile(LoadedProfile loaded);
  absl::StatusOr<std::shared_ptr<const LoadedProfile>> ReadStored(const ProfileKey& key) const;

  // Those below expect mutex_ to be held.
  using ActiveSet = std::map<Place, std::shared_ptr<const LoadedProfile>>;
  absl::StatusOr<std::shared_ptr<const ServingSnapshot>> BuildSnapshot(const ActiveSet& active) const;
  bool IsOverridden(const File& file, const ActiveSet& active) const;
  absl::StatusOr<ProfileInfo> Commit(StoreChange change, std::optional<ProfileSummary> published,
                                     std::shared_ptr<const LoadedProfile> next, ProfileChange kind);
  const std::vector<Activation>& HistoryOf(const Place& place) const;
  bool IsActive(const ProfileKey& key) const;  // of stored profiles
  ProfileInfo InfoOf(const ProfileSummary& summary) const;
  const File* FindFile(const ProfileKey& key) const;
  std::string ActiveEtag(const Place& place) const;
  absl::StatusOr<ProfileKey> Resolve(const ProfileName& name) const;
  std::string Canonical(const std::string& device) const { return catalogue_->CanonicalSlug(device); }
  void Notify(const ProfileEvent& event) const;

  SnapshotPointer<ServingSnapshot> serving_{nullptr};
  std::atomic<std::int64_t> swaps_{0};

  Store* store_;
  Clock clock_;
  Limits limits_;
  const Catalogue* catalogue_;

  mutable std::mutex mutex_;
  std::vector<File> files_;
  std::map<ProfileKey, ProfileSummary> stored_;
  std::map<Place, std::vector<Activation>> history_;
  std::int64_t last_sequence_ = 0;
  ActiveSet active_;  // stored profiles that answer
  std::map<std::int64_t, Subscription> subscriptions_;
  std::int64_t last_subscription_ = 0;
};

}  // namespace gpueta
