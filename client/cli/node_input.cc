#include "client/cli/node_input.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "core/base/errors.h"

namespace gpueta::cli {
namespace {

std::vector<std::string_view> PresetNames() {
  std::vector<std::string_view> names;
  for (const NodeTopology& preset : NodePresets()) names.push_back(preset.name);
  return names;
}

}  // namespace

void AddNodeOptions(CLI::App& command, NodeArgs& args) {
  command.add_option("--node", args.node,
                     fmt::format("Node that collectives run in: {}", fmt::join(PresetNames(), ", ")));
  command.add_option("--nodes", args.nodes, "Of such nodes; default: as many as the devices need")
      ->check(CLI::PositiveNumber);
}

absl::StatusOr<std::optional<NodeTopology>> TopologyOf(const NodeArgs& args, std::int64_t devices) {
  if (args.node.empty()) {
    if (args.nodes.has_value()) return InvalidArgument("--nodes: say of which kind with --node");
    return std::nullopt;
  }
  const NodeTopology* preset = FindNodePreset(args.node);
  if (preset == nullptr)
    return InvalidArgument("--node: \"{}\" is not one of {}", args.node, fmt::join(PresetNames(), ", "));
  NodeTopology topology = *preset;
  const std::int64_t needed = (devices + topology.devices - 1) / topology.devices;
  topology.nodes = args.nodes.value_or(needed);
  if (topology.nodes < needed) {
    return InvalidArgument("--nodes: {} devices (--tp, --ep, --pp, --dp) need {} nodes of {} with {} devices each",
                           devices, needed, args.node, topology.devices);
  }
  const absl::Status valid = Validate(topology);
  if (!valid.ok()) return Prefixed(valid, "--node");
  return topology;
}

}  // namespace gpueta::cli
