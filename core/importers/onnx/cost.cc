#include "core/importers/onnx/cost.h"

#include <algorithm>

#include "core/importers/onnx/op_rule.h"

namespace gpueta::onnx_import {
namespace {

SymInt Columns(const Shape& shape) { return shape.empty() ? SymInt(1) : shape.back(); }

SymInt Rows(const Shape& shape) { return shape.empty() ? SymInt(1) : Product(shape, 0, shape.size() - 1); }

}  // namespace

GraphNode MakeNode(DType dtype, Work work, const std::vector<DimValue>& dims) {
  GraphNode node;
  node.kernel.dtype = dtype;
  node.kernel.work = std::move(work);
  for (const DimValue& dim : dims) {
    const int position = *FindDim(node.kernel.op(), dim.dim);
    SetDim(node.kernel, position, dim.value.constant().value_or(1));
    if (!dim.value.constant().has_value()) node.symbolic_dims.push_back({position, dim.value});
  }
  return node;
}

GraphNode VectorNode(DType dtype, std::string_view op, const SymInt& rows, const SymInt& cols, const SymInt& operands) {
  return MakeNode(dtype, Vector{.op = std::string(op)}, {{"rows", rows}, {"cols", cols}, {"operands", operands}});
}

GraphNode VectorNode(DType dtype, std::string_view op, const Shape& shape, const SymInt& operands) {
  return VectorNode(dtype, op, Rows(shape), Columns(shape), operands);
}

GraphNode ViewNode(DType dtype, const Shape& shape) {
  GraphNode node = VectorNode(dtype, "view", shape, 1);
  node.costing = Costing::kFree;
  return node;
}

GraphNode CostCopy(NodeView& /*node*/, const std::vector<Tensor>& outputs) {
  return VectorNode(KernelDType(outputs[0].type), "copy", outputs[0].shape, 1);
}

GraphNode CostView(NodeView& /*node*/, const std::vector<Tensor>& outputs) {
  return ViewNode(KernelDType(outputs[0].type), outputs[0].shape);
}

GraphNode CostTraffic(NodeView& node, const std::vector<Tensor>& outputs) {
  const Tensor* largest = &outputs[0];
  SymInt elements = ElementsOf(largest->shape);
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!node.has(i)) continue;
    const SymInt candidate = ElementsOf(node.in(i).shape);
    if (candidate == elements || !IsKnownNonNegative(candidate - elements)) continue;
    largest = &node.in(i);
    elements = candidate;
  }
  std::string op = Printable(node.proto().op_type());
  for (char& c : op) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  GraphNode cost = VectorNode(KernelDType(largest->type), op, largest->shape, FullSizeOperands(node, largest->shape));
  cost.costing = Costing::kTraffic;
  return cost;
}

int FullSizeOperands(const NodeView& node, const Shape& shape) {
  std::vector<const Tensor*> counted;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!node.has(i) || node.in(i).origin != Origin::kData || node.in(i).shape != shape) continue;
    counted.push_back(&node.in(i));
  }
  std::sort(counted.begin(), counted.end());
  counted.erase(std::unique(counted.begin(), counted.end()), counted.end());
  return std::max(1, static_cast<int>(counted.size()));
}

}  // namespace gpueta::onnx_import
