#include "server/profiles/profile_registry.h"

#include <algorithm>

#include "core/base/errors.h"
#include "server/logging.h"
#include "server/profiles/activation.h"
#include "server/validation.h"

namespace gpueta {

absl::StatusOr<std::unique_ptr<ProfileRegistry>> ProfileRegistry::Open(Store& store, std::vector<LoadedProfile> files,
                                                                       Clock clock, const Limits& limits,
                                                                       const Catalogue& catalogue) {
  std::unique_ptr<ProfileRegistry> registry(new ProfileRegistry(store, std::move(clock), limits, catalogue));
  GPUETA_RETURN_IF_ERROR(registry->Load(std::move(files)));
  return registry;
}

ProfileRegistry::ProfileRegistry(Store& store, Clock clock, const Limits& limits, const Catalogue& catalogue)
    : store_(&store), clock_(std::move(clock)), limits_(limits), catalogue_(&catalogue) {}

absl::Status ProfileRegistry::Load(std::vector<LoadedProfile> files) {
  const std::lock_guard lock(mutex_);
  for (LoadedProfile& file : files) AddFile(std::move(file));
  GPUETA_ASSIGN_OR_RETURN(StoreContents contents, store_->Load());
  for (const StoredProfile& stored : contents.profiles) {
    GPUETA_ASSIGN_OR_RETURN(ProfileSummary summary, ParseSummary(stored.key, stored.summary));
    stored_.emplace(stored.key, std::move(summary));
  }
  for (Activation& activation : contents.activations) {
    last_sequence_ = activation.sequence;
    history_[{activation.device, activation.node}].push_back(std::move(activation));
  }
  for (const auto& [place, history] : history_) {
    const std::string id = ActiveId(history);
    if (id.empty()) continue;
    auto loaded = ReadStored({place.first, place.second, id});
    if (loaded.ok()) {
      active_[place] = *std::move(loaded);
    } else {
      stored_.erase({place.first, place.second, id});  // so that publishing it again repairs the store
      Log(LogLevel::kError, "active profile left out",
          {{"device", place.first}, {"id", id}, {"error", MessageOf(loaded.status())}});
    }
  }
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const ServingSnapshot> snapshot, BuildSnapshot(active_));
  serving_.Swap(std::move(snapshot));
  return absl::OkStatus();
}

void ProfileRegistry::AddFile(LoadedProfile loaded) {
  const std::string device = Canonical(loaded.profile.device);
  for (const File& other : files_) {
    const bool same_device = other.summary.key.device == device && other.summary.labels == loaded.profile.labels;
    const bool both_transfer = other.summary.transfer && loaded.profile.transfer;
    if (!same_device && !both_transfer) continue;
    Log(LogLevel::kError, "profile file left out",
        {{"device", device},
         {"id", loaded.id},
         {"reason", "another file has the same device and labels"},
         {"other", other.summary.key.id}});
    return;
  }
  ProfileSummary summary = SummaryOf(loaded, {device, "", loaded.id}, 0);
  files_.push_back({std::make_shared<const LoadedProfile>(std::move(loaded)), std::move(summary)});
}

absl::StatusOr<std::shared_ptr<const LoadedProfile>> ProfileRegistry::ReadStored(const ProfileKey& key) const {
  GPUETA_ASSIGN_OR_RETURN(const std::string bytes, store_->ReadProfileFile(key));
  GPUETA_ASSIGN_OR_RETURN(LoadedProfile loaded, ParseProfile(bytes));
  return std::make_shared<const LoadedProfile>(std::move(loaded));
}

bool ProfileRegistry::IsOverridden(const File& file, const ActiveSet& active) const {
  return std::any_of(active.begin(), active.end(), [&file](const auto& entry) {
    const auto& [place, loaded] = entry;
    if (file.summary.transfer && loaded->profile.transfer) return true;
    return place == Place{file.summary.key.device, ""} && loaded->profile.labels == file.summary.labels;
  });
}

absl::StatusOr<std::shared_ptr<const ServingSnapshot>> ProfileRegistry::BuildSnapshot(const ActiveSet& active) const {
  // Where labels do not decide the first one answers: published before files.
  std::vector<ActiveProfile> profiles;
  for (const auto& [place, loaded] : active) {
    const auto history = history_.find(place);
    const std::int64_t version = history == history_.end() ? 0 : LastVersionOf(history->second, loaded->id);
    profiles.push_back({*loaded, place.second, version});
  }
  for (const File& file : files_) {
    if (!IsOverridden(file, active)) profiles.push_back({*file.loaded, "", 0});
  }
  return ServingSnapshot::Build(std::move(profiles), *catalogue_);
}

const std::vector<Activation>& ProfileRegistry::HistoryOf(const Place& place) const {
  static const std::vector<Activation>& none = *new std::vector<Activation>();
  const auto it = history_.find(place);
  return it == history_.end() ? none : it->second;
}

ProfileInfo ProfileRegistry::InfoOf(const ProfileSummary& summary) const {
  const Place place{summary.key.device, summary.key.node};
  const File* file = FindFile(summary.key);
  const bool file_answers = file != nullptr && !IsOverridden(*file, active_);
  if (summary.published_unix_s == 0) return {summary, file_answers, 0};
  // What was published may stand in a file as well, which answers after a
  // rollback past the first activation.
  return {summary, IsActive(summary.key) || file_answers, LastVersionOf(HistoryOf(place), summary.key.id)};
}

bool ProfileRegistry::IsActive(const ProfileKey& key) const {
  const auto it = active_.find({key.device, key.node});
  return it != active_.end() && it->second->id == key.id;
}

const ProfileRegistry::File* ProfileRegistry::FindFile(const ProfileKey& key) const {
  const auto it = std::find_if(files_.begin(), files_.end(), [&key](const File& f) { return f.summary.key == key; });
  return it == files_.end() ? nullptr : &*it;
}

std::string ProfileRegistry::ActiveEtag(const Place& place) const {
  const std::string id = ActiveId(HistoryOf(place));
  const auto stored = stored_.find({place.first, place.second, id});
  if (stored != stored_.end()) return EtagOf(InfoOf(stored->second));
  const auto file = std::find_if(files_.begin(), files_.end(), [&](const File& f) {
    return Place{f.summary.key.device, f.summary.key.node} == place && !IsOverridden(f, active_);
  });
  return file == files_.end() ? "" : EtagOf(InfoOf(file->summary));
}

absl::StatusOr<ProfileKey> ProfileRegistry::Resolve(const ProfileName& name) const {
  ProfileKey key{Canonical(name.parent.device), name.parent.node, name.id};
  if (name.id == kActiveProfile) {
    const Place place{key.device, key.node};
    key.id = ActiveId(HistoryOf(place));
    if (key.id.empty()) {
      const auto file = std::find_if(files_.begin(), files_.end(), [&](const File& f) {
        return Place{f.summary.key.device, f.summary.key.node} == place && !IsOverridden(f, active_);
      });
      if (file == files_.end()) return NotFound("no profile of {} is active", ToString(name.parent));
      key.id = file->summary.key.id;
    }
  }
  if (!stored_.contains(key) && FindFile(key) == nullptr) {
    return NotFound("no profile {}; \"gpueta profile list\" shows those there are", ToString(name));
  }
  return key;
}

// Everything that can fail comes before the commit; what follows cannot.
absl::StatusOr<ProfileInfo> ProfileRegistry::Commit(StoreChange change, std::optional<ProfileSummary> published,
                                                    std::shared_ptr<const LoadedProfile> next, ProfileChange kind) {
  std::shared_ptr<const ServingSnapshot> snapshot;
  ActiveSet active = active_;
  ProfileKey key;
  if (change.activation.has_value()) {
    const Activation& a = *change.activation;
    const Place place{a.device, a.node};
    key = {a.device, a.node, a.profile_id};
    if (next == nullptr) {
      active.erase(place);
    } else {
      active[place] = std::move(next);
    }
    history_[place].push_back(a);  // the snapshot carries the new version
    auto built = BuildSnapshot(active);
    if (!built.ok()) {
      history_[place].pop_back();
      return built.status();
    }
    snapshot = *std::move(built);
  } else {
    key = published->key;
  }
  if (const absl::Status committed = store_->Commit(change); !committed.ok()) {
    if (change.activation.has_value()) history_[{key.device, key.node}].pop_back();
    return committed;
  }
  if (published.has_value()) stored_.insert_or_assign(key, *std::move(published));
  if (change.activation.has_value()) {
    last_sequence_ = change.activation->sequence;
    active_ = std::move(active);
    serving_.Swap(std::move(snapshot));
    swaps_.fetch_add(1, std::memory_order_relaxed);
  }
  ProfileInfo info;
  if (const auto stored = stored_.find(key); stored != stored_.end()) {
    info = InfoOf(stored->second);
  } else {  // rolled back to the file
    const auto file = std::find_if(files_.begin(), files_.end(),
                                   [&key](const File& f) { return f.summary.key.device == key.device; });
    if (file != files_.end()) info = InfoOf(file->summary);
  }
  Notify({kind, info});
  return info;
}

absl::StatusOr<ProfileInfo> ProfileRegistry::Publish(const DeviceName& parent, std::string_view file, bool activate) {
  GPUETA_RETURN_IF_ERROR(
      CheckLimit("chunk", "profile_bytes", limits_.profile_bytes, static_cast<std::int64_t>(file.size())));
  GPUETA_ASSIGN_OR_RETURN(LoadedProfile parsed, ParseProfile(file));
  const auto loaded = std::make_shared<const LoadedProfile>(std::move(parsed));

  const std::lock_guard lock(mutex_);
  const ProfileKey key{Canonical(parent.device), parent.node, loaded->id};
  const Place place{key.device, key.node};
  const auto known = stored_.find(key);
  if (known != stored_.end() && (!activate || IsActive(key))) return InfoOf(known->second);

  StoreChange change;
  std::optional<ProfileSummary> published;
  if (known == stored_.end()) {
    std::vector<const Profile*> others;
    for (const auto& [where, other] : active_) others.push_back(&other->profile);
    for (const File& other : files_) others.push_back(&other.loaded->profile);
    GPUETA_RETURN_IF_ERROR(ValidateProfile(*loaded, parent.device, others, *catalogue_));
    GPUETA_RETURN_IF_ERROR(CheckLimit("profiles in the store", "profiles", limits_.profiles,
                                      static_cast<std::int64_t>(stored_.size()) + 1));
    published = SummaryOf(*loaded, key, UnixSeconds(clock_));
    change.profile = StoredProfile{key, published->published_unix_s, SerializeSummary(*published), std::string(file)};
  }
  if (activate) change.activation = NextActivation(HistoryOf(place), key, last_sequence_ + 1, UnixSeconds(clock_));
  return Commit(std::move(change), std::move(published), loaded,
                activate ? ProfileChange::kActivated : ProfileChange::kPublished);
}

absl::StatusOr<ProfileInfo> ProfileRegistry::Activate(const ProfileName& name, const std::string& etag) {
  const std::lock_guard lock(mutex_);
  GPUETA_ASSIGN_OR_RETURN(const ProfileKey key, Resolve(name));
  const Place place{key.device, key.node};
  GPUETA_RETURN_IF_ERROR(CheckEtag(etag, ActiveEtag(place)));
  const auto stored = stored_.find(key);
  if (stored == stored_.end()) {
    return FailedPrecondition("profile {} came from a file; publish it to activate it, or roll back to it", key.id);
  }
  if (IsActive(key)) return InfoOf(stored->second);
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedProfile> loaded, ReadStored(key));
  StoreChange change{.activation = NextActivation(HistoryOf(place), key, last_sequence_ + 1, UnixSeconds(clock_))};
  return Commit(std::move(change), std::nullopt, std::move(loaded), ProfileChange::kActivated);
}

absl::StatusOr<ProfileInfo> ProfileRegistry::Rollback(const DeviceName& parent, const std::string& etag) {
  const std::lock_guard lock(mutex_);
  const Place place{Canonical(parent.device), parent.node};
  GPUETA_RETURN_IF_ERROR(CheckEtag(etag, ActiveEtag(place)));
  const bool has_file = std::any_of(files_.begin(), files_.end(), [&place](const File& f) {
    return Place{f.summary.key.device, f.summary.key.node} == place;
  });
  GPUETA_ASSIGN_OR_RETURN(Activation next, NextRollback(HistoryOf(place), place.first, place.second, has_file,
                                                        last_sequence_ + 1, UnixSeconds(clock_)));
  std::shared_ptr<const LoadedProfile> loaded;
  if (!next.profile_id.empty()) {
    GPUETA_ASSIGN_OR_RETURN(loaded, ReadStored({place.first, place.second, next.profile_id}));
  }
  return Commit({.activation = std::move(next)}, std::nullopt, std::move(loaded), ProfileChange::kRolledBack);
}

std::vector<ProfileInfo> ProfileRegistry::List(const std::string& device) const {
  const std::lock_guard lock(mutex_);
  const std::string slug = Canonical(device);
  std::map<ProfileKey, ProfileInfo> found;
  for (const File& file : files_) {
    if (device == kAllDevices || file.summary.key.device == slug) found.emplace(file.summary.key, InfoOf(file.summary));
  }
  for (const auto& [key, summary] : stored_) {
    if (device == kAllDevices || key.device == slug) found.insert_or_assign(key, InfoOf(summary));
  }
  std::vector<ProfileInfo> infos;
  infos.reserve(found.size());
  for (auto& [key, info] : found) infos.push_back(std::move(info));
  return infos;
}

absl::StatusOr<ProfileInfo> ProfileRegistry::Get(const ProfileName& name) const {
  const std::lock_guard lock(mutex_);
  GPUETA_ASSIGN_OR_RETURN(const ProfileKey key, Resolve(name));
  const auto stored = stored_.find(key);
  return InfoOf(stored != stored_.end() ? stored->second : FindFile(key)->summary);
}

absl::StatusOr<std::string> ProfileRegistry::ReadFile(const ProfileName& name) const {
  const std::lock_guard lock(mutex_);
  GPUETA_ASSIGN_OR_RETURN(const ProfileKey key, Resolve(name));
  if (stored_.contains(key)) return store_->ReadProfileFile(key);
  return SerializeProfile(FindFile(key)->loaded->profile);
}

std::int64_t ProfileRegistry::Subscribe(const std::string& device, OnEvent on_event) {
  const std::lock_guard lock(mutex_);
  const std::string slug = device == kAllDevices ? device : Canonical(device);
  const auto tell = [&](const ProfileSummary& summary) {
    const ProfileInfo info = InfoOf(summary);
    if (info.active && (slug == kAllDevices || summary.key.device == slug)) on_event({ProfileChange::kActive, info});
  };
  for (const File& file : files_) tell(file.summary);
  for (const auto& [key, summary] : stored_) tell(summary);
  subscriptions_.emplace(++last_subscription_, Subscription{slug, std::move(on_event)});
  return last_subscription_;
}

void ProfileRegistry::Unsubscribe(std::int64_t subscription) {
  const std::lock_guard lock(mutex_);
  subscriptions_.erase(subscription);
}

void ProfileRegistry::Notify(const ProfileEvent& event) const {
  for (const auto& [id, subscription] : subscriptions_) {
    if (subscription.device == kAllDevices || subscription.device == event.profile.summary.key.device)
      subscription.on_event(event);
  }
}

}  // namespace gpueta
