#include "core/graph/passes/rewriter.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"

namespace gpueta {

Rewriter::Rewriter(Graph& graph) : graph_(graph), old_(std::move(graph.nodes)) {
  graph_.nodes.clear();
  readers_.resize(old_.size());
  now_.resize(old_.size(), -1);
  for (const GraphNode& node : old_) {
    for (const int input : node.inputs) ++readers_[static_cast<std::size_t>(input)];
  }
}

int Rewriter::Keep(std::size_t i, GraphNode changed) {
  for (int& input : changed.inputs) input = now_[static_cast<std::size_t>(input)];
  now_[i] = Append(std::move(changed));
  return now_[i];
}

int Rewriter::Append(GraphNode node) {
  std::erase(node.inputs, -1);
  std::sort(node.inputs.begin(), node.inputs.end());
  node.inputs.erase(std::unique(node.inputs.begin(), node.inputs.end()), node.inputs.end());
  new_.push_back(std::move(node));
  return static_cast<int>(new_.size()) - 1;
}

void Rewriter::AddInput(int node, int input) {
  std::vector<int>& inputs = new_[static_cast<std::size_t>(node)].inputs;
  const auto place = std::lower_bound(inputs.begin(), inputs.end(), input);
  if (place == inputs.end() || *place != input) inputs.insert(place, input);
}

void Rewriter::ReplaceInput(int node, int input, int by) {
  std::erase(new_[static_cast<std::size_t>(node)].inputs, input);
  AddInput(node, by);
}

void Rewriter::Finish() { graph_.nodes = std::move(new_); }

SymInt DimOf(const GraphNode& node, std::string_view dim) {
  const int position = *FindDim(node.kernel.op(), dim);
  for (const GraphNode::SymbolicDim& symbolic : node.symbolic_dims) {
    if (symbolic.dim == position) return symbolic.value;
  }
  return GetDim(node.kernel, position);
}

void SetDimOf(GraphNode& node, std::string_view dim, const SymInt& value) {
  const int position = *FindDim(node.kernel.op(), dim);
  std::erase_if(node.symbolic_dims, [&](const auto& symbolic) { return symbolic.dim == position; });
  SetDim(node.kernel, position, value.constant().value_or(1));
  if (!value.constant().has_value()) node.symbolic_dims.push_back({position, value});
}

bool HasBias(const GraphNode& node) {
  if (node.kernel.op() != Op::kGemm) return false;
  const SymInt n = DimOf(node, "n");
  return SymInt(node.parameters) == n * DimOf(node, "k") + n;
}

namespace {

SymInt OutSize(const GraphNode& conv, const char* size, const char* kernel, const char* stride, const char* pad,
               const char* extra_pad, const char* dilation) {
  const SymInt span = DimOf(conv, dilation) * (DimOf(conv, kernel) - 1) + 1;
  return FloorDiv(DimOf(conv, size) + 2 * DimOf(conv, pad) + DimOf(conv, extra_pad) - span, DimOf(conv, stride)) + 1;
}

}  // namespace

std::optional<Extent> OutputExtent(const GraphNode& node) {
  switch (node.kernel.op()) {
    case Op::kGemm: return Extent{DimOf(node, "batch") * DimOf(node, "m"), DimOf(node, "n")};
    case Op::kConv2d:
      return Extent{DimOf(node, "batch") * DimOf(node, "out_channels") *
                        OutSize(node, "height", "kernel_h", "stride_h", "pad_h", "extra_pad_h", "dilation_h"),
                    OutSize(node, "width", "kernel_w", "stride_w", "pad_w", "extra_pad_w", "dilation_w")};
    case Op::kAttention:
      return Extent{DimOf(node, "batch") * DimOf(node, "query_len"), DimOf(node, "heads") * DimOf(node, "head_dim")};
    case Op::kMoe: return Extent{DimOf(node, "num_tokens"), DimOf(node, "hidden_size")};
    case Op::kVector: return Extent{DimOf(node, "rows"), DimOf(node, "cols")};
    case Op::kCollective:
    case Op::kCustom: return std::nullopt;
  }
  return std::nullopt;
}

GraphNode VectorLike(const GraphNode& node, std::string_view name, std::string_view op, const SymInt& rows,
                     const SymInt& cols, std::int64_t operands) {
  GraphNode vector;
  vector.kernel.name = fmt::format("{}.{}", node.kernel.name, name);
  vector.kernel.dtype = node.kernel.dtype;
  vector.kernel.work = Vector{.op = std::string(op)};
  vector.source_op = node.source_op;
  vector.layer = node.layer;
  vector.turn = node.turn;
  vector.stage = node.stage;
  SetDimOf(vector, "rows", rows);
  SetDimOf(vector, "cols", cols);
  SetDimOf(vector, "operands", operands);
  return vector;
}

}  // namespace gpueta
