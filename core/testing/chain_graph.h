// A graph for tests of what runs after kernels are known.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace gpueta {

// One node for each kernel, each behind the one before it.
inline Graph ChainOf(const std::vector<Kernel>& kernels) {
  Graph graph;
  for (const Kernel& kernel : kernels) {
    GraphNode node;
    node.kernel = kernel;
    if (!graph.nodes.empty()) node.inputs = {static_cast<int>(graph.nodes.size()) - 1};
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

}  // namespace gpueta
