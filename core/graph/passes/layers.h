// Layers of graphs whose source does not say what they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace gpueta {

// Whether any node says which layer it is of.
bool HasLayers(const Graph& graph);

// The outputs that nodes from `cut` on read of nodes before it, through views, too:
// what passes there. Views that are read there stand among them, for their
// readers; they are no data of their own.
std::vector<std::size_t> CrossingAt(const Graph& graph, std::size_t cut);

// Where to cut a forward pass into `parts` of about equal work: the first nodes of
// all parts but the first. Near each share of the work the place is taken where
// the fewest bytes pass. Work and bytes are of a nominal batch and length, as
// symbols have no value yet. INVALID_ARGUMENT for fewer kernels than parts.
absl::StatusOr<std::vector<std::size_t>> BalancedCuts(const Graph& graph, std::int64_t parts);

// Numbers layers (GraphNode::layer): √n segments of n kernels with multiply-adds,
// which keeps least in memory where layers are computed again (Chen et al. 2016,
// section 4.1), none over two stages of a pipeline. The last one stays without a number: its
// gradients are next. Returns how many. Errors as BalancedCuts.
absl::StatusOr<int> MarkLayers(Graph& graph);

}  // namespace gpueta
