#include "core/wire/topology_codec.h"

#include <vector>

#include "core/base/errors.h"

namespace gpueta::wire {
namespace {

static_assert(static_cast<int>(LinkKind::kNvlink) + 1 == v1::Link::KIND_NVLINK &&
              static_cast<int>(LinkKind::kNetwork) + 1 == v1::Link::KIND_NETWORK);

void Encode(const Link& link, v1::Link& message) {
  message.set_kind(static_cast<v1::Link::Kind>(static_cast<int>(link.kind) + 1));
  message.set_gb_s(link.gb_s);
  message.set_latency_us(link.latency_us);
}

absl::StatusOr<Link> Decode(std::string_view field, const v1::Link& message) {
  if (message.kind() < v1::Link::KIND_NVLINK || message.kind() > v1::Link::KIND_NETWORK)
    return FieldError(fmt::format("{}.kind", field),
                      "is not set, or unknown; give KIND_NVLINK, KIND_PCIE or KIND_NETWORK");
  return Link{static_cast<LinkKind>(message.kind() - 1), message.gb_s(), message.latency_us()};
}

}  // namespace

v1::NodeTopology Encode(const NodeTopology& topology) {
  v1::NodeTopology message;
  message.set_name(topology.name);
  message.set_devices(topology.devices);
  message.set_nodes(topology.nodes);
  Encode(topology.link, *message.mutable_link());
  if (topology.network.gb_s > 0) Encode(topology.network, *message.mutable_network());
  if (topology.host.gb_s > 0) Encode(topology.host, *message.mutable_host());
  return message;
}

absl::StatusOr<NodeTopology> Decode(const v1::NodeTopology& message) {
  NodeTopology topology;
  if (const NodeTopology* preset = FindNodePreset(message.name()); preset != nullptr) {
    topology = *preset;
  } else if (!message.has_link()) {
    std::vector<std::string_view> names;
    for (const NodeTopology& known : NodePresets()) names.push_back(known.name);
    return FieldError("name", fmt::format("\"{}\" is not one of {}; give its devices and link, too", message.name(),
                                          fmt::join(names, ", ")));
  }
  topology.name = message.name();
  if (message.devices() != 0) topology.devices = message.devices();
  if (message.nodes() != 0) topology.nodes = message.nodes();
  if (message.has_link()) {
    GPUETA_ASSIGN_OR_RETURN(topology.link, Decode("link", message.link()));
  }
  if (message.has_network()) {
    GPUETA_ASSIGN_OR_RETURN(topology.network, Decode("network", message.network()));
  }
  if (message.has_host()) {
    GPUETA_ASSIGN_OR_RETURN(topology.host, Decode("host", message.host()));
  }
  GPUETA_RETURN_IF_ERROR(Validate(topology));
  return topology;
}

}  // namespace gpueta::wire
