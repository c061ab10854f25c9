// Building the kernels of nodes.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/importers/onnx/node_view.h"
#include "core/importers/onnx/tensor.h"

namespace gpueta::onnx_import {

struct DimValue {
  std::string_view dim;  // as in DimNamesOf
  SymInt value;
};

// A node whose kernel is `work` with these dims, symbolic or not.
GraphNode MakeNode(DType dtype, Work work, const std::vector<DimValue>& dims);

// A vector operator over rows × cols elements.
GraphNode VectorNode(DType dtype, std::string_view op, const SymInt& rows, const SymInt& cols, const SymInt& operands);

// A vector operator over a tensor: cols is the last dim, rows the rest.
GraphNode VectorNode(DType dtype, std::string_view op, const Shape& shape, const SymInt& operands);

// A node that runs no kernel, over a tensor of this shape.
GraphNode ViewNode(DType dtype, const Shape& shape);

// A copy of input 0's type writing output 0, as large as the output.
GraphNode CostCopy(NodeView& node, const std::vector<Tensor>& outputs);

GraphNode CostView(NodeView& node, const std::vector<Tensor>& outputs);

// A known operator without a kernel kind of its own, and any unknown one: by
// the traffic of its largest tensor, named by its lower-case type.
GraphNode CostTraffic(NodeView& node, const std::vector<Tensor>& outputs);

// Inputs that are computed and as large as `shape`, each tensor once; at least
// 1. Smaller ones (broadcast) and constants mostly stay in caches.
int FullSizeOperands(const NodeView& node, const Shape& shape);

}  // namespace gpueta::onnx_import
