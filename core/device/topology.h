// How the devices of a group are connected: inside a node, and node to node.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace gpueta {

enum class LinkKind : std::uint8_t { kNvlink, kPcie, kNetwork };
std::string_view Name(LinkKind kind);

struct Link {
  LinkKind kind = LinkKind::kPcie;
  double gb_s = 0;        // one direction, of one device, as the data sheet has it
  double latency_us = 0;  // of one hop; 0: what is usual of its kind
};

// Identical nodes of identical devices. Ranks fill one node after the other.
struct NodeTopology {
  std::string name;
  std::int64_t devices = 1;  // of one node
  Link link;                 // between devices of a node
  Link network;              // one device's share of its node's adapters; gb_s 0: none
  Link host;                 // to the node's memory; gb_s 0: not known
  std::int64_t nodes = 1;
};

// Nodes that are sold or usual. Where each figure comes from: THIRD_PARTY.md.
std::span<const NodeTopology> NodePresets();
// nullptr if there is no such preset.
const NodeTopology* FindNodePreset(std::string_view name);

// INVALID_ARGUMENT naming the field that no node has.
absl::Status Validate(const NodeTopology& topology);

// Where the ranks of a group lie. Neighbours in the group are `stride` devices
// apart: 1 for tensor parallelism, the tensor ranks for data parallelism.
struct GroupPlacement {
  std::int64_t per_node = 1;  // ranks of the group in one node
  std::int64_t nodes = 1;
};
// INVALID_ARGUMENT naming `nodes` for a group that has no room.
absl::Status Place(const NodeTopology& topology, std::int64_t ranks, std::int64_t stride, GroupPlacement& placement);

}  // namespace gpueta
