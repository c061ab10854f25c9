// --node and --nodes: how the devices of a group are connected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/device/topology.h"

namespace CLI {
class App;
}

namespace gpueta::cli {

struct NodeArgs {
  std::string node;  // a preset; empty: not said
  std::optional<std::int64_t> nodes;
};
void AddNodeOptions(CLI::App& command, NodeArgs& args);

// nullopt without --node. Without --nodes as many as hold `devices` in all.
// INVALID_ARGUMENT for a name that is no preset, --nodes alone, or too few nodes.
absl::StatusOr<std::optional<NodeTopology>> TopologyOf(const NodeArgs& args, std::int64_t devices);

}  // namespace gpueta::cli
