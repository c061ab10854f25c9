// Resource names of ProfileService.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace gpueta {

// `devices/{device}` or `devices/{device}/nodes/{node}`.
struct DeviceName {
  std::string device;
  std::string node;  // empty: the device itself
};

// The same followed by `/profiles/{id}`.
struct ProfileName {
  DeviceName parent;
  std::string id;  // "active" stands for the active profile
};

inline constexpr std::string_view kActiveProfile = "active";
// As device: all devices.
inline constexpr std::string_view kAllDevices = "-";

// INVALID_ARGUMENT naming `field` and the form expected.
absl::StatusOr<DeviceName> ParseDeviceName(std::string_view field, std::string_view name);
absl::StatusOr<ProfileName> ParseProfileName(std::string_view field, std::string_view name);

std::string ToString(const DeviceName& name);
std::string ToString(const ProfileName& name);

}  // namespace gpueta
