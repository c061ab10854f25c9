// What the importer knows of an operator: how its output's shape follows from
// its inputs, and which kernel it costs.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "core/importers/onnx/node_view.h"

namespace gpueta::onnx_import {

// What a rule finds out about one output; empty where it cannot tell.
struct Inferred {
  using Dims = std::vector<std::optional<SymInt>>;

  ElementType type = 0;
  std::optional<Dims> dims;
  std::optional<Contents> contents;  // only with constant dims; one number an element
};

inline Inferred Known(ElementType type, const Shape& shape) {
  return {type, Inferred::Dims(shape.begin(), shape.end()), std::nullopt};
}

// Shapes, types and contents of the node's outputs. Outputs past the end of the
// result are unknown.
using InferFunction = std::vector<Inferred> (*)(NodeView& node);

// The kernel of a node that runs on the device, given its outputs. Dims,
// costing and dtype; the importer adds name, edges and parameters.
using CostFunction = GraphNode (*)(NodeView& node, const std::vector<Tensor>& outputs);

// Of an operator that is several kernels, one after another; at least one.
using CostsFunction = std::vector<GraphNode> (*)(NodeView& node, const std::vector<Tensor>& outputs);

struct OpRule {
  InferFunction infer = nullptr;
  CostFunction cost = nullptr;
  CostsFunction costs = nullptr;  // instead of cost
  std::string_view kernel = {};   // vector operator it is costed as, in the names of core/ops/vector
  FoldFunction fold = nullptr;    // of elementwise operators
  std::size_t min_inputs = 1;
  // Its output is not a function of its inputs alone: never folded.
  bool random = false;
};

// By operator type.
using OpTable = std::unordered_map<std::string_view, OpRule>;

// The rules of all operators that the importer knows, of the standard and the
// com.microsoft domain.
const OpTable& KnownOps();

// The rule for everything else: unknown shapes, cost by memory traffic.
const OpRule& UnknownOp();

}  // namespace gpueta::onnx_import
