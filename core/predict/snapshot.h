// Everything needed to answer: profiles made ready for evaluation, by device.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/catalogue.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"
#include "core/profile/profile.h"

namespace gpueta {

// A profile that may answer, with where it stands.
struct ActiveProfile {
  LoadedProfile loaded;
  std::string node;          // empty for the class profile
  std::int64_t version = 0;  // 0 for profiles from files
};

// Immutable; safe to use from any thread. The server holds one behind an
// atomic pointer and replaces it as a whole.
class Snapshot {
 public:
  // Profiles with `transfer` set answer for devices without tables of their
  // own. INVALID_ARGUMENT if two profiles are of one device with the same
  // labels and node.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Build(std::vector<ActiveProfile> profiles,
                                                               const Catalogue& catalogue = Catalogue::BuiltIn());

  // The predictor for a device; with labels (and "node"), the active profile
  // that matches the most of them and contradicts none; without, the class
  // profile. Devices of the catalogue without a
  // profile answer from their spec and the transfer profile. NOT_FOUND naming
  // similar slugs.
  absl::StatusOr<std::shared_ptr<const Predictor>> Find(std::string_view slug,
                                                        const std::map<std::string, std::string>& labels = {}) const;

  // A predictor for a spec outside the catalogue.
  std::shared_ptr<const Predictor> ForSpec(const DeviceSpec& spec) const;

  // Slugs with a profile of their own, sorted.
  std::vector<std::string> ProfiledDevices() const;

 private:
  Snapshot() = default;
  const Catalogue* catalogue_ = nullptr;
  struct Candidate {
    std::map<std::string, std::string> labels;  // the profile's, and "node" for profiles of one node
    std::shared_ptr<const Predictor> predictor;
  };
  static int MatchOf(const Candidate& candidate, const std::map<std::string, std::string>& asked);
  std::map<std::string, std::vector<Candidate>, std::less<>> by_device_;
  std::shared_ptr<const CompiledProfile> transfer_;
  // Devices of the catalogue without a profile, by their place there; made when
  // first asked for. Asking again does not wait.
  struct Unprofiled {
    std::once_flag once;
    std::shared_ptr<const Predictor> predictor;
  };
  std::unique_ptr<Unprofiled[]> unprofiled_;
};

}  // namespace gpueta
