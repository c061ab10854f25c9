#include "core/device/topology.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::int64_t kMostDevices = 1024;  // of a node
constexpr std::int64_t kMostNodes = 1 << 20;
constexpr double kMostGbS = 1e6;
constexpr double kMostLatencyUs = 1e6;

const std::array<NodeTopology, 7>& Presets() {
  using enum LinkKind;
  static const std::array<NodeTopology, 7> presets = {{
      {.name = "dgx-v100", .devices = 8, .link = {kNvlink, 150}, .network = {kNetwork, 6.25}, .host = {kPcie, 15.8}},
      {.name = "dgx-a100", .devices = 8, .link = {kNvlink, 300}, .network = {kNetwork, 25}, .host = {kPcie, 31.5}},
      {.name = "dgx-h100", .devices = 8, .link = {kNvlink, 450}, .network = {kNetwork, 50}, .host = {kPcie, 63}},
      {.name = "dgx-h200", .devices = 8, .link = {kNvlink, 450}, .network = {kNetwork, 50}, .host = {kPcie, 63}},
      {.name = "dgx-b200", .devices = 8, .link = {kNvlink, 900}, .network = {kNetwork, 50}, .host = {kPcie, 63}},
      {.name = "l40s-pcie", .devices = 8, .link = {kPcie, 31.5}, .network = {kNetwork, 6.25}, .host = {kPcie, 31.5}},
      {.name = "pc", .devices = 2, .link = {kPcie, 15.8}, .network = {kNetwork, 0.625}, .host = {kPcie, 15.8}},
  }};
  return presets;
}

absl::Status CheckLink(std::string_view field, const Link& link, bool required) {
  if (!(link.gb_s >= 0 && link.gb_s <= kMostGbS) || (required && link.gb_s <= 0))
    return FieldError(field, "needs a bandwidth in GB/s above 0, at most 1e6");
  if (!(link.latency_us >= 0 && link.latency_us <= kMostLatencyUs))
    return FieldError(field, "needs a latency from 0 to 1e6 us");
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvlink: return "nvlink";
    case LinkKind::kPcie: return "pcie";
    case LinkKind::kNetwork: return "network";
  }
  return "";
}

std::span<const NodeTopology> NodePresets() { return Presets(); }

const NodeTopology* FindNodePreset(std::string_view name) {
  const auto it = std::ranges::find(Presets(), name, &NodeTopology::name);
  return it == Presets().end() ? nullptr : &*it;
}

absl::Status Validate(const NodeTopology& topology) {
  if (topology.devices < 1 || topology.devices > kMostDevices)
    return FieldError("devices", fmt::format("must be from 1 to {}", kMostDevices));
  if (topology.nodes < 1 || topology.nodes > kMostNodes)
    return FieldError("nodes", fmt::format("must be from 1 to {}", kMostNodes));
  GPUETA_RETURN_IF_ERROR(CheckLink("link", topology.link, topology.devices > 1));
  GPUETA_RETURN_IF_ERROR(CheckLink("network", topology.network, topology.nodes > 1));
  return CheckLink("host", topology.host, false);
}

absl::Status Place(const NodeTopology& topology, std::int64_t ranks, std::int64_t stride, GroupPlacement& placement) {
  placement.per_node = std::clamp<std::int64_t>(topology.devices / std::max<std::int64_t>(stride, 1), 1, ranks);
  placement.nodes = (ranks + placement.per_node - 1) / placement.per_node;
  if (placement.nodes <= topology.nodes) return absl::OkStatus();
  return FieldError("nodes", fmt::format("is {}, but {} ranks that are {} devices apart need {} nodes of {} devices",
                                         topology.nodes, ranks, stride, placement.nodes, topology.devices));
}

}  // namespace gpueta
