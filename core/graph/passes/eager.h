// What frameworks run op by op where an exporter wrote one operator.
#pragma once

#include "core/graph/graph.h"

namespace gpueta {

// Behind each convolution the batch norm or bias that its exporter folded into
// it (GraphNode::folded), as a kernel of its own.
void RestoreFolded(Graph& graph);

bool HasFolded(const Graph& graph);

}  // namespace gpueta
