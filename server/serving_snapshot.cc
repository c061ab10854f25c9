#include "server/serving_snapshot.h"

#include "core/base/errors.h"

namespace gpueta {
namespace {

std::atomic<std::uint64_t> snapshots{0};  // made so far

}  // namespace

absl::StatusOr<std::shared_ptr<const ServingSnapshot>> ServingSnapshot::Build(std::vector<ActiveProfile> profiles,
                                                                              const Catalogue& catalogue) {
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const Snapshot> snapshot, Snapshot::Build(std::move(profiles), catalogue));
  return std::shared_ptr<const ServingSnapshot>(new ServingSnapshot(std::move(snapshot), catalogue));
}

ServingSnapshot::ServingSnapshot(std::shared_ptr<const Snapshot> profiles, const Catalogue& catalogue)
    : profiles_(std::move(profiles)),
      serial_(++snapshots),
      catalogue_(&catalogue),
      has_profile_(catalogue.entries().size()),
      remembered_(new Remembered[catalogue.entries().size()]()) {
  for (const std::string& slug : profiles_->ProfiledDevices()) {
    const CatalogueEntry* entry = catalogue.Find(slug);
    if (entry != nullptr) has_profile_[static_cast<std::size_t>(entry - catalogue.entries().data())] = true;
  }
}

ServingSnapshot::~ServingSnapshot() {
  for (std::size_t i = 0; i < has_profile_.size(); ++i) delete remembered_[i].load(std::memory_order_relaxed);
}

absl::StatusOr<std::shared_ptr<const Predictor>> ServingSnapshot::Find(
    std::string_view slug, const std::map<std::string, std::string>& labels) const {
  const CatalogueEntry* entry = catalogue_->Find(slug);
  if (entry == nullptr) return profiles_->Find(slug, labels);
  const auto i = static_cast<std::size_t>(entry - catalogue_->entries().data());
  if (has_profile_[i]) return profiles_->Find(slug, labels);
  // Without a profile labels choose nothing.
  if (const auto* known = remembered_[i].load(std::memory_order_acquire)) return *known;
  GPUETA_ASSIGN_OR_RETURN(std::shared_ptr<const Predictor> predictor, profiles_->Find(slug, labels));
  auto made = std::make_unique<const std::shared_ptr<const Predictor>>(std::move(predictor));
  const std::shared_ptr<const Predictor>* first = nullptr;
  if (!remembered_[i].compare_exchange_strong(first, made.get(), std::memory_order_acq_rel)) return *first;
  return *made.release();
}

}  // namespace gpueta
