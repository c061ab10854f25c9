#include "server/profiles/resource_name.h"

#include <algorithm>
#include <vector>

#include "core/base/errors.h"

namespace gpueta {
namespace {

std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t slash = text.find('/');
    parts.push_back(text.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    text.remove_prefix(slash + 1);
  }
}

// Names go into URLs, file names and metrics.
bool IsSegment(std::string_view text) {
  constexpr std::size_t kLongest = 128;
  return !text.empty() && text.size() <= kLongest && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

}  // namespace

absl::StatusOr<DeviceName> ParseDeviceName(std::string_view field, std::string_view name) {
  const auto parts = Split(name);
  const bool device = parts.size() == 2 && parts[0] == "devices";
  const bool node = parts.size() == 4 && parts[0] == "devices" && parts[2] == "nodes";
  if ((!device && !node) || !IsSegment(parts[1]) || !IsSegment(parts.back())) {
    return FieldError(field, fmt::format("\"{}\" is not of the form devices/SLUG or devices/SLUG/nodes/NODE", name));
  }
  return DeviceName{std::string(parts[1]), node ? std::string(parts[3]) : ""};
}

absl::StatusOr<ProfileName> ParseProfileName(std::string_view field, std::string_view name) {
  constexpr std::string_view kMiddle = "/profiles/";
  const std::size_t middle = name.rfind(kMiddle);
  if (middle != std::string_view::npos && IsSegment(name.substr(middle + kMiddle.size()))) {
    auto parent = ParseDeviceName(field, name.substr(0, middle));
    if (parent.ok()) return ProfileName{*std::move(parent), std::string(name.substr(middle + kMiddle.size()))};
  }
  return FieldError(
      field,
      fmt::format("\"{}\" is not of the form devices/SLUG/profiles/ID or devices/SLUG/nodes/NODE/profiles/ID", name));
}

std::string ToString(const DeviceName& name) {
  return name.node.empty() ? fmt::format("devices/{}", name.device)
                           : fmt::format("devices/{}/nodes/{}", name.device, name.node);
}

std::string ToString(const ProfileName& name) { return fmt::format("{}/profiles/{}", ToString(name.parent), name.id); }

}  // namespace gpueta
