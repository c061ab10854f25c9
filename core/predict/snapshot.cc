#include "core/predict/snapshot.h"

#include <algorithm>

#include "core/base/errors.h"

namespace gpueta {

// How many labels of the question a profile matches; -1 if it contradicts one
// or is of a node that was not asked for.
int Snapshot::MatchOf(const Candidate& candidate, const std::map<std::string, std::string>& asked) {
  if (candidate.labels.contains("node") && !asked.contains("node")) return -1;
  int matches = 0;
  for (const auto& [key, value] : asked) {
    const auto it = candidate.labels.find(key);
    if (it == candidate.labels.end()) continue;
    if (it->second != value) return -1;
    ++matches;
  }
  return matches;
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Snapshot::Build(std::vector<ActiveProfile> profiles,
                                                                const Catalogue& catalogue) {
  auto snapshot = std::shared_ptr<Snapshot>(new Snapshot());
  snapshot->catalogue_ = &catalogue;
  snapshot->unprofiled_ = std::make_unique<Unprofiled[]>(catalogue.entries().size());
  for (ActiveProfile& active : profiles) {
    if (!active.loaded.profile.transfer) continue;
    if (snapshot->transfer_ != nullptr) return InvalidArgument("two transfer profiles are active; keep one");
    snapshot->transfer_ = std::make_shared<const CompiledProfile>(std::move(active.loaded));
  }
  for (ActiveProfile& active : profiles) {
    if (active.loaded.profile.transfer) continue;
    const Profile& profile = active.loaded.profile;
    const std::string slug = catalogue.CanonicalSlug(profile.device);
    const CatalogueEntry* known = catalogue.Find(slug);
    // A profile carries the spec it was fitted with; the catalogue's may be newer.
    DeviceSpec spec = profile.spec.mem_bandwidth_gb_s > 0 || known == nullptr ? profile.spec : known->spec;
    spec.slug = slug;
    auto& same_device = snapshot->by_device_[slug];
    std::map<std::string, std::string> labels = profile.labels;
    if (!active.node.empty()) labels["node"] = active.node;
    for (const Candidate& other : same_device) {
      if (other.labels == labels) {
        return InvalidArgument("two profiles are active for {} with the same labels ({} and {}); keep one", slug,
                               other.predictor->profile()->id, active.loaded.id);
      }
    }
    auto compiled = std::make_shared<const CompiledProfile>(std::move(active.loaded));
    same_device.push_back({std::move(labels), std::make_shared<const Predictor>(std::move(spec), std::move(compiled),
                                                                                snapshot->transfer_, active.version)});
  }
  return std::shared_ptr<const Snapshot>(std::move(snapshot));
}

absl::StatusOr<std::shared_ptr<const Predictor>> Snapshot::Find(
    std::string_view slug, const std::map<std::string, std::string>& labels) const {
  const std::string canonical = catalogue_->CanonicalSlug(slug);
  if (const auto it = by_device_.find(canonical); it != by_device_.end()) {
    const Candidate* best = nullptr;
    int best_match = -1;
    for (const Candidate& candidate : it->second) {
      const int match = MatchOf(candidate, labels);
      if (match <= best_match) continue;
      best_match = match;
      best = &candidate;
    }
    if (best != nullptr) return best->predictor;
  }
  const CatalogueEntry* entry = catalogue_->Find(slug);
  if (entry == nullptr) {  // what a driver calls a card, or nothing
    GPUETA_ASSIGN_OR_RETURN(const DeviceSpec spec, catalogue_->Get(slug));
    return Find(spec.slug, labels);
  }
  Unprofiled& unprofiled = unprofiled_[static_cast<std::size_t>(entry - catalogue_->entries().data())];
  std::call_once(unprofiled.once, [&] { unprofiled.predictor = ForSpec(entry->spec); });
  return unprofiled.predictor;
}

std::shared_ptr<const Predictor> Snapshot::ForSpec(const DeviceSpec& spec) const {
  return std::make_shared<const Predictor>(spec, nullptr, transfer_);
}

std::vector<std::string> Snapshot::ProfiledDevices() const {
  std::vector<std::string> slugs;
  for (const auto& [slug, candidates] : by_device_) slugs.push_back(slug);
  return slugs;
}

}  // namespace gpueta
