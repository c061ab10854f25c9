// Graphs to and from their message and its text forms.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "gpueta/v1/workload.pb.h"

namespace gpueta::wire {

// The graph must be valid.
v1::Graph Encode(const Graph& graph);

// The graph of a message, validated: INVALID_ARGUMENT naming the field, e.g.
// "nodes[7].kernel.gemm.k" or "nodes[7].symbolic_dims.m".
absl::StatusOr<Graph> Decode(const v1::Graph& message);

// One node, not validated; errors name the field, e.g. "kernel.gemm.k".
absl::StatusOr<GraphNode> DecodeNode(const v1::Graph::Node& message);

enum class GraphFormat : std::uint8_t {
  kText,  // protobuf text format
  kJson,  // protobuf's JSON mapping
};

// The text of a graph file. Equal graphs give equal text.
absl::StatusOr<std::string> WriteGraphText(const Graph& graph, GraphFormat format);

// Reads either format; JSON is told by its opening brace. INVALID_ARGUMENT
// naming the line for text that is no Graph message, the field for an invalid
// graph.
absl::StatusOr<Graph> ReadGraphText(std::string_view text);

}  // namespace gpueta::wire
