// The type that a graph runs in.
#pragma once

#include "core/graph/graph.h"

namespace gpueta {

// Floating-point kernels run in `dtype`, and cached keys and values are stored
// in it. Types of weights alone (fp8, int8, int4) change linear layers,
// convolutions and experts; the rest keeps its type.
void SetDType(Graph& graph, DType dtype);

// Cached keys and values of fused attention.
void SetKvDType(Graph& graph, DType dtype);

}  // namespace gpueta
