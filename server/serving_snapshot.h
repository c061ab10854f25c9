// What answers questions about devices: the active profiles, and predictors
// for devices without one, made when first asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/catalogue.h"
#include "core/predict/snapshot.h"

namespace gpueta {

// Immutable but for the remembered predictors; safe to use from any thread,
// without locks. The server holds one behind a SnapshotPointer.
class ServingSnapshot {
 public:
  // As Snapshot::Build.
  static absl::StatusOr<std::shared_ptr<const ServingSnapshot>> Build(
      std::vector<ActiveProfile> profiles, const Catalogue& catalogue = Catalogue::BuiltIn());
  ~ServingSnapshot();
  ServingSnapshot(const ServingSnapshot&) = delete;
  ServingSnapshot& operator=(const ServingSnapshot&) = delete;

  // As Snapshot::Find.
  absl::StatusOr<std::shared_ptr<const Predictor>> Find(std::string_view slug,
                                                        const std::map<std::string, std::string>& labels) const;

  const Snapshot& profiles() const { return *profiles_; }
  // No two snapshots of this process share it: what was made from one is known
  // by it.
  std::uint64_t serial() const { return serial_; }

 private:
  ServingSnapshot(std::shared_ptr<const Snapshot> profiles, const Catalogue& catalogue);

  std::shared_ptr<const Snapshot> profiles_;
  std::uint64_t serial_;
  const Catalogue* catalogue_;
  // One for each entry of the catalogue without a profile of its own; null
  // until first asked for. Whoever makes it first puts it here.
  using Remembered = std::atomic<const std::shared_ptr<const Predictor>*>;
  std::vector<bool> has_profile_;
  std::unique_ptr<Remembered[]> remembered_;
};

}  // namespace gpueta
