// What frameworks run op by op where an exporter wrote one operator.
#pragma once

#include "core/graph/graph.h"

namespace gpueta {

// Behind each convolution the batch norm or bias that its exporter folded into
// it (GraphNode::folded): eager runs and training have them as kernels.
void RestoreFolded(Graph& graph);

}  // namespace gpueta
