// Fused attention as runtimes' graph optimisers write it. What it multiplies
// depends on options and caches that no shape tells: costed by traffic.
#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

// The Attention of com.microsoft projects first: its input 1 are the weights of
// query, key and value side by side.
bool Projects(const NodeView& node) {
  return node.proto().domain() == "com.microsoft" && node.proto().op_type() == "Attention";
}

// Like the query, [batch, sequence, hidden] or [batch, heads, sequence, size],
// with the heads of the query and the head size of the value.
std::vector<Inferred> InferAttention(NodeView& node) {
  constexpr std::int64_t kProjections = 3;  // query, key, value
  const Tensor& query = node.in(0);
  if (query.shape.empty()) {
    node.Mismatch("its query is a scalar");
    return {};
  }
  const std::int64_t heads = node.Int(node.HasAttribute("q_num_heads") ? "q_num_heads" : "num_heads", 1);
  const std::int64_t kv_heads = node.Int("kv_num_heads", heads);
  if (heads < 1 || kv_heads < 1) {
    node.Malformed("its numbers of heads, {} and {}, must be at least 1", heads, kv_heads);
    return {};
  }
  SymInt size = query.shape.back();
  const bool has_value = node.has(2) && node.in(2).shape.size() == query.shape.size();
  if (Projects(node)) {
    if (node.has(1) && node.in(1).shape.size() == 2) size = FloorDiv(node.in(1).shape[1], kProjections);
  } else if (has_value && query.shape.size() == 3) {
    size = FloorDiv(node.in(2).shape.back() * heads, kv_heads);
  } else if (has_value) {
    size = node.in(2).shape.back();
  } else if (!node.has(1)) {  // query, key and value in one
    size = FloorDiv(size * heads, SymInt(heads) + SymInt(2) * kv_heads);
  }
  Shape shape = query.shape;
  shape.back() = size;
  return {Known(query.type, shape)};
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
