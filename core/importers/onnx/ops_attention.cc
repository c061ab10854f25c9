// Fused attention as runtimes' graph optimisers write it. What it multiplies
// depends on options and caches that no shape tells: costed by traffic.
#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

// [batch, sequence, hidden] like the query, with the value's hidden size. The
// Attention of com.microsoft projects first: its input 1 are the weights of
// query, key and value side by side.
std::vector<Inferred> InferAttention(NodeView& node) {
  const Tensor& query = node.in(0);
  Inferred result = Known(query.type, query.shape);
  if (result.dims->empty()) return {std::move(result)};
  const bool projects = node.proto().domain() == "com.microsoft" && node.proto().op_type() == "Attention";
  if (projects && node.has(1) && node.in(1).shape.size() == 2) {
    constexpr int kProjections = 3;
    result.dims->back() = FloorDiv(node.in(1).shape[1], kProjections);
  }
  return {std::move(result)};
}

std::vector<Inferred> InferRotaryEmbedding(NodeView& node) { return {Known(node.in(0).type, node.in(0).shape)}; }

GraphNode CostRotaryEmbedding(NodeView& /*node*/, const std::vector<Tensor>& outputs) {
  return VectorNode(KernelDType(outputs[0].type), "rope", outputs[0].shape, 1);
}

}  // namespace

void AddAttentionOps(OpTable& table) {
  const OpRule attention = {.infer = InferAttention, .cost = CostTraffic};
  table.insert({
      {"Attention", attention},
      {"GroupQueryAttention", attention},
      {"MultiHeadAttention", attention},
      {"QAttention", attention},
      {"RotaryEmbedding", {.infer = InferRotaryEmbedding, .cost = CostRotaryEmbedding}},
  });
}

}  // namespace gpueta::onnx_import
