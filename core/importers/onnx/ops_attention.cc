// Fused attention: that of opset 23, and what runtimes' graph optimisers write
// (com.microsoft).
#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

// The products of one attention. Sizes of heads may differ between query and
// value; kernels know one, that of the query.
struct AttentionDims {
  SymInt batch = 1;
  SymInt query_len = 1;
  SymInt kv_len = 1;  // with what a cache holds
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  SymInt head_dim = 1;
  SymInt value_dim = 1;
  SymInt projection_k = 0;  // columns of the input that is projected first; 0: none is
  bool by_heads = false;    // query and output are [batch, heads, sequence, size]
  bool causal = false;
};

// The Attention of com.microsoft projects first: its input 1 are the weights of
// query, key and value side by side.
bool Projects(const NodeView& node) {
  const std::string& type = node.proto().op_type();
  return type == "QAttention" || (type == "Attention" && node.proto().domain() == "com.microsoft");
}

bool HasRank(const NodeView& node, std::size_t input, std::size_t rank) {
  return node.has(input) && node.in(input).shape.size() == rank;
}

// Input positions of the cached keys [batch, kv_heads, sequence, size].
std::size_t PastKeyInput(const NodeView& node) {
  const std::string& type = node.proto().op_type();
  if (type == "GroupQueryAttention") return 3;
  if (type == "MultiHeadAttention") return 6;
  return 4;  // also of the Attention of com.microsoft, there with a leading 2
}

std::optional<AttentionDims> ReadProjected(NodeView& node, AttentionDims dims) {
  constexpr std::int64_t kProjections = 3;  // query, key, value
  const Shape& x = node.in(0).shape;
  if (x.size() != 3 || !HasRank(node, 1, 2)) return std::nullopt;
  const std::vector<std::int64_t> sizes = node.Ints("qkv_hidden_sizes");
  const SymInt hidden = sizes.size() == 3 ? SymInt(sizes[0]) : FloorDiv(node.in(1).shape[1], kProjections);
  dims.batch = x[0];
  dims.query_len = x[1];
  dims.kv_len = x[1];
  dims.projection_k = x[2];
  dims.head_dim = FloorDiv(hidden, dims.heads);
  dims.value_dim = sizes.size() == 3 ? FloorDiv(sizes[2], dims.heads) : dims.head_dim;
  dims.causal = node.Int("unidirectional", 0) != 0;
  const std::size_t past = node.proto().op_type() == "QAttention" ? 8 : PastKeyInput(node);
  if (HasRank(node, past, 5)) dims.kv_len = dims.kv_len + node.in(past).shape[3];
  return dims;
}

// Of separate tensors, or of one that holds query, key and value of each token.
std::optional<AttentionDims> ReadAttention(NodeView& node) {
  AttentionDims dims;
  dims.heads = node.Int(node.HasAttribute("q_num_heads") ? "q_num_heads" : "num_heads", 1);
  dims.kv_heads = node.Int(node.HasAttribute("kv_num_heads") ? "kv_num_heads" : "num_kv_heads", dims.heads);
  const Shape& query = node.in(0).shape;
  if (query.size() == 4) {
    if (query[1].constant().has_value()) dims.heads = *query[1].constant();
    dims.kv_heads = HasRank(node, 1, 4) ? node.in(1).shape[1].constant().value_or(dims.heads) : dims.heads;
  }
  if (dims.heads < 1 || dims.kv_heads < 1) {
    node.Malformed("its numbers of heads, {} and {}, must be at least 1", dims.heads, dims.kv_heads);
    return std::nullopt;
  }
  if (Projects(node)) return ReadProjected(node, dims);
  dims.causal = node.Int("is_causal", 0) != 0 || node.Int("unidirectional", 0) != 0 ||
                node.proto().op_type() == "GroupQueryAttention";
  if (query.size() == 4 && HasRank(node, 1, 4) && HasRank(node, 2, 4)) {
    dims.by_heads = true;
    dims.batch = query[0];
    dims.query_len = query[2];
    dims.head_dim = query[3];
    dims.kv_len = node.in(1).shape[2];
    dims.value_dim = node.in(2).shape[3];
  } else if (query.size() == 3 && HasRank(node, 1, 3) && HasRank(node, 2, 3)) {
    dims.batch = query[0];
    dims.query_len = query[1];
    dims.head_dim = FloorDiv(query[2], dims.heads);
    dims.kv_len = node.in(1).shape[1];
    dims.value_dim = FloorDiv(node.in(2).shape[2], dims.kv_heads);
  } else if (query.size() == 3 && HasRank(node, 1, 4) && HasRank(node, 2, 4)) {  // cached keys of another sequence
    dims.batch = query[0];
    dims.query_len = query[1];
    dims.head_dim = FloorDiv(query[2], dims.heads);
    dims.kv_len = node.in(1).shape[2];
    dims.value_dim = node.in(2).shape[3];
  } else if (query.size() == 3 && HasRank(node, 1, 5)) {  // keys and values in one: [batch, tokens, heads, 2, size]
    dims.batch = query[0];
    dims.query_len = query[1];
    dims.head_dim = node.in(1).shape[4];
    dims.kv_len = node.in(1).shape[1];
    dims.value_dim = dims.head_dim;
  } else if (query.size() == 5 && !node.has(1)) {  // [batch, tokens, heads, 3, size]
    dims.batch = query[0];
    dims.query_len = query[1];
    dims.head_dim = query[4];
    dims.kv_len = query[1];
    dims.value_dim = dims.head_dim;
  } else if (query.size() == 3 && !node.has(1)) {
    dims.batch = query[0];
    dims.query_len = query[1];
    dims.head_dim = FloorDiv(query[2], dims.heads + 2 * dims.kv_heads);
    dims.kv_len = query[1];
    dims.value_dim = dims.head_dim;
  } else {
    return std::nullopt;
  }
  if (const std::size_t past = PastKeyInput(node); HasRank(node, past, 4)) {
    dims.kv_len = dims.kv_len + node.in(past).shape[2];
  }
  return dims;
}

// The result, like the query; keys and values with the cached ones before them.
std::vector<Inferred> InferAttention(NodeView& node) {
  const std::optional<AttentionDims> dims = ReadAttention(node);
  if (!dims.has_value()) return {};
  const ElementType type = node.in(0).type;
  const Shape result = dims->by_heads ? Shape{dims->batch, dims->heads, dims->query_len, dims->value_dim}
                                      : Shape{dims->batch, dims->query_len, dims->value_dim * dims->heads};
  if (Projects(node)) {
    return {Known(type, result), Known(type, {2, dims->batch, dims->heads, dims->kv_len, dims->head_dim})};
  }
  return {Known(type, result), Known(type, {dims->batch, dims->kv_heads, dims->kv_len, dims->head_dim}),
          Known(type, {dims->batch, dims->kv_heads, dims->kv_len, dims->value_dim})};
}

std::vector<GraphNode> CostAttention(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<AttentionDims> dims = ReadAttention(node);
  if (!dims.has_value()) return {CostTraffic(node, outputs)};
  const DType dtype = KernelDType(outputs[0].type);
  std::vector<GraphNode> kernels;
  if (Projects(node)) {
    kernels.push_back(MakeNode(KernelDType(node.in(0).type), Gemm{.layer = Gemm::Layer::kLinear},
                               {{"m", dims->batch * dims->query_len},
                                {"n", dims->heads * (2 * dims->head_dim + dims->value_dim)},
                                {"k", dims->projection_k}}));
  }
  const bool decodes = dims->query_len == 1 && dims->kv_len != 1;
  // Kernels of one query see all keys: the mask leaves nothing out.
  const Attention attention = {.phase = decodes ? Attention::Phase::kDecode : Attention::Phase::kPrefill,
                               .causal = dims->causal && !decodes ? 1 : 0,
                               .kv_dtype = dtype};
  kernels.push_back(MakeNode(dtype, attention,
                             {{"batch", dims->batch},
                              {"query_len", dims->query_len},
                              {"kv_len", dims->kv_len},
                              {"heads", dims->heads},
                              {"kv_heads", dims->kv_heads},
                              {"head_dim", dims->head_dim}}));
  return kernels;
}

std::vector<Inferred> InferRotaryEmbedding(NodeView& node) { return {Known(node.in(0).type, node.in(0).shape)}; }

GraphNode CostRotaryEmbedding(NodeView& /*node*/, const std::vector<Tensor>& outputs) {
  return VectorNode(KernelDType(outputs[0].type), "rope", outputs[0].shape, 1);
}

}  // namespace

void AddAttentionOps(OpTable& table) {
  const OpRule attention = {.infer = InferAttention, .costs = CostAttention};
  table.insert({
      {"Attention", attention},
      {"GroupQueryAttention", attention},
      {"MultiHeadAttention", attention},
      {"QAttention", attention},
      {"RotaryEmbedding", {.infer = InferRotaryEmbedding, .cost = CostRotaryEmbedding}},
  });
}

}  // namespace gpueta::onnx_import
