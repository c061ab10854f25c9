// Fits a profile to measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/spec.h"
#include "core/fit/whole_model_fit.h"
#include "core/measurements/measurements.h"
#include "core/profile/profile.h"

namespace gpueta {

struct FitOptions {
  std::uint64_t seed = 0;
  // Called as work proceeds with the share done and what is being fitted.
  std::function<void(double share, std::string_view what)> progress;
  // A transfer profile to start from, and devices (slugs of its pool) that must
  // not count as relatives; the fitted device itself never does. May be null.
  const Profile* base = nullptr;
  std::vector<std::string> without;
};

// One table for each key among the rows but those of gradients (core/ops/launch.h).
// Rows must all be of the device (the caller checks aliases). Deterministic for equal
// rows and seed. INVALID_ARGUMENT when there is no other row at all.
absl::StatusOr<Profile> FitProfile(const DeviceSpec& spec, std::span<const Measurement> rows,
                                   const FitOptions& options = {});

// One pooled profile over several devices (`transfer` set): parameters that
// are relative to peak, bandwidth and cache, so that they hold for devices
// that were not measured. `spec_of` gives the spec of each row's device.
absl::StatusOr<Profile> FitTransferProfile(std::span<const Measurement> rows,
                                           const std::function<absl::StatusOr<DeviceSpec>(const std::string&)>& spec_of,
                                           const FitOptions& options = {});

// Adds to a profile of one device what times of whole models on it say, starting
// from `base` (or the form's own start if it is null): its departure, the
// machine's launch and copy rates, the end-to-end rung of the ladder.
void LearnFromModels(std::span<const ModelTime> times, const FitOptions& options, Profile& profile);

// The same to a pooled profile: what all devices of the times have in common.
absl::Status PoolModels(std::span<const ModelTime> times,
                        const std::function<absl::StatusOr<DeviceSpec>(const std::string&)>& spec_of, Profile& profile);

}  // namespace gpueta
