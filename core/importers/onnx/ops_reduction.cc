// Operators that reduce along axes, and running sums.
#include <array>

#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

// Which axes are reduced; nullopt if unknown or out of range.
std::optional<std::vector<bool>> ReadReduced(NodeView& node) {
  const std::size_t rank = node.in(0).shape.size();
  std::vector<std::int64_t> axes;
  if (node.HasInts("axes", 1)) {
    const std::optional<std::vector<std::int64_t>> given = node.ConstantInts("axes", 1);
    if (!given.has_value()) return std::nullopt;
    axes = *given;
  }
  const bool all = axes.empty() && node.Int("noop_with_empty_axes", 0) == 0;
  std::vector<bool> reduced(rank, all);
  for (std::int64_t given : axes) {
    const std::optional<std::size_t> axis = node.Axis(given, rank);
    if (!axis.has_value()) return std::nullopt;
    reduced[*axis] = true;
  }
  return reduced;
}

Shape ReducedShape(const Shape& shape, const std::vector<bool>& reduced, bool keep) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!reduced[i]) result.push_back(shape[i]);
    if (reduced[i] && keep) result.emplace_back(1);
  }
  return result;
}

std::vector<Inferred> InferReduction(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::vector<bool>> reduced = ReadReduced(node);
  const bool keep = node.Int("keepdims", 1) != 0;
  if (!reduced.has_value()) {
    if (keep) return {{x.type, Inferred::Dims(x.shape.size()), std::nullopt}};
    return {{x.type, std::nullopt, std::nullopt}};
  }
  Inferred result = Known(x.type, ReducedShape(x.shape, *reduced, keep));
  const Contents* contents = node.contents(0);
  // Of vectors: the product of a shape, say.
  if (contents == nullptr || contents->empty() || x.shape.size() != 1 || !(*reduced)[0] || node.rule().fold == nullptr)
    return {std::move(result)};
  Number total = contents->front();
  for (std::size_t i = 1; i < contents->size(); ++i) {
    const std::array<Number, 2> pair = {total, (*contents)[i]};
    std::optional<Number> next = node.rule().fold(pair);
    if (!next.has_value()) return {std::move(result)};
    total = *std::move(next);
  }
  result.contents = {total};
  return {std::move(result)};
}

GraphNode ReductionNode(const Tensor& x, std::string_view kernel, const std::vector<bool>& reduced) {
  SymInt rows = 1;
  SymInt cols = 1;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    SymInt& extent = reduced[i] ? cols : rows;
    extent = extent * x.shape[i];
  }
  return VectorNode(KernelDType(x.type), kernel, rows, cols, 1);
}

GraphNode CostReduction(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<std::vector<bool>> reduced = ReadReduced(node);
  if (!reduced.has_value()) return CostTraffic(node, outputs);
  return ReductionNode(node.in(0), node.rule().kernel, *reduced);
}

std::vector<Inferred> InferArgExtreme(NodeView& node) {
  const Shape& x = node.in(0).shape;
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", 0), x.size());
  if (!axis.has_value()) return {};
  std::vector<bool> reduced(x.size(), false);
  reduced[*axis] = true;
  return {Known(TensorProto::INT64, ReducedShape(x, reduced, node.Int("keepdims", 1) != 0))};
}

// Along one axis: attribute, or input 1 of CumSum.
GraphNode CostAlongAxis(NodeView& node, const std::vector<Tensor>& outputs) {
  const Tensor& x = node.in(0);
  std::optional<std::size_t> axis;
  if (node.has(1)) {
    const std::optional<std::vector<SymInt>> given = node.IntsAt(1);
    if (given.has_value() && given->size() == 1)
      axis = node.Axis(given->front().constant().value_or(-1), x.shape.size());
  } else {
    axis = node.Axis(node.Int("axis", 0), x.shape.size());
  }
  if (!axis.has_value()) return CostTraffic(node, outputs);
  std::vector<bool> reduced(x.shape.size(), false);
  reduced[*axis] = true;
  return ReductionNode(x, node.rule().kernel, reduced);
}

std::vector<Inferred> InferCumulative(NodeView& node) { return {Known(node.in(0).type, node.in(0).shape)}; }

OpRule Reduction(FoldFunction fold = nullptr) {
  return {.infer = InferReduction, .cost = CostReduction, .kernel = "reduce", .fold = fold};
}

}  // namespace

void AddReductionOps(OpTable& table) {
  const OpRule arg_extreme = {.infer = InferArgExtreme, .cost = CostAlongAxis, .kernel = "reduce"};
  table.insert({
      {"ArgMax", arg_extreme},
      {"ArgMin", arg_extreme},
      {"CumSum", {.infer = InferCumulative, .cost = CostAlongAxis, .kernel = "cumsum", .min_inputs = 2}},
      {"ReduceL1", Reduction()},
      {"ReduceL2", Reduction()},
      {"ReduceLogSum", Reduction()},
      {"ReduceLogSumExp", Reduction()},
      {"ReduceMax", Reduction(FoldMax)},
      {"ReduceMean", Reduction()},
      {"ReduceMin", Reduction(FoldMin)},
      {"ReduceProd", Reduction(FoldMul)},
      {"ReduceSum", Reduction(FoldAdd)},
      {"ReduceSumSquare", Reduction()},
  });
}

}  // namespace gpueta::onnx_import
