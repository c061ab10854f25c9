// Operators that pick or put elements by index.
#include <algorithm>
#include <limits>

#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

// Exporters write "to the end" as any bound from here on.
constexpr std::int64_t kToTheEnd = std::numeric_limits<std::int32_t>::max();

std::optional<Contents> FoldGather(const Contents& data, const std::vector<std::int64_t>& data_dims, std::size_t axis,
                                   const std::vector<std::int64_t>& indices, std::size_t indices_rank,
                                   const std::vector<std::int64_t>& to) {
  const std::int64_t size = data_dims[axis];
  if (std::any_of(indices.begin(), indices.end(), [size](std::int64_t i) { return i < -size || i >= size; })) {
    return std::nullopt;
  }
  return Rearranged(data, to, [&](const std::vector<std::int64_t>& index) {
    std::int64_t which = 0;  // offset in indices, whose dims stand at `axis` in the result
    for (std::size_t i = 0; i < indices_rank; ++i) which = which * to[axis + i] + index[axis + i];
    const std::int64_t picked = indices[static_cast<std::size_t>(which)];
    std::vector<std::int64_t> source(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(axis));
    source.push_back(picked < 0 ? picked + size : picked);
    source.insert(source.end(), index.begin() + static_cast<std::ptrdiff_t>(axis + indices_rank), index.end());
    return BroadcastOffset(source, data_dims);
  });
}

std::vector<Inferred> InferGather(NodeView& node) {
  const Tensor& data = node.in(0);
  const Shape& indices = node.in(1).shape;
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", 0), data.shape.size());
  if (!axis.has_value()) return {};
  const auto at = data.shape.begin() + static_cast<std::ptrdiff_t>(*axis);
  Shape shape(data.shape.begin(), at);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), at + 1, data.shape.end());
  Inferred result = Known(data.type, shape);
  const std::optional<std::vector<std::int64_t>> data_dims = ConstantDims(data.shape);
  const std::optional<std::vector<std::int64_t>> to = ConstantDims(shape);
  const bool small = SmallElementCount(shape).has_value();
  if (node.contents(0) == nullptr || node.contents(1) == nullptr || !data_dims.has_value() || !to.has_value() || !small)
    return {std::move(result)};
  std::vector<std::int64_t> picked;
  for (const Number& index : *node.contents(1)) {
    const std::optional<std::int64_t> constant = ConstantOf(index);
    if (!constant.has_value()) return {std::move(result)};
    picked.push_back(*constant);
  }
  result.contents = FoldGather(*node.contents(0), *data_dims, *axis, picked, indices.size(), *to);
  return {std::move(result)};
}

// A look-up in a stored table is an embedding, a selection of activations a
// copy.
GraphNode CostGather(NodeView& node, const std::vector<Tensor>& outputs) {
  const Tensor& data = node.in(0);
  if (data.origin != Origin::kConstant) return CostCopy(node, outputs);
  const std::size_t axis = node.Axis(node.Int("axis", 0), data.shape.size()).value_or(0);
  const SymInt rows = Product(data.shape, 0, axis) * ElementsOf(node.in(1).shape);
  const SymInt cols = Product(data.shape, std::min(axis + 1, data.shape.size()), data.shape.size());
  return VectorNode(KernelDType(data.type), "embedding", rows, cols, 1);
}

std::vector<Inferred> InferGatherElements(NodeView& node) { return {Known(node.in(0).type, node.in(1).shape)}; }

std::vector<Inferred> InferGatherNd(NodeView& node) {
  const Tensor& data = node.in(0);
  const Shape& indices = node.in(1).shape;
  const std::int64_t batch_dims = node.Int("batch_dims", 0);
  const std::int64_t depth = indices.empty() ? -1 : indices.back().constant().value_or(-1);
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  if (batch_dims < 0 || depth < 0 || batch_dims > rank || depth > rank - batch_dims) {
    node.Mismatch("indices of shape {} do not select from {}", ToText(indices), ToText(data.shape));
    return {};
  }
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.shape.begin() + batch_dims + depth, data.shape.end());
  return {Known(data.type, shape)};
}

std::vector<Inferred> InferScatter(NodeView& node) { return {Known(node.in(0).type, node.in(0).shape)}; }

// The selection that a slice makes along one axis.
struct Range {
  SymInt start = 0;
  std::int64_t step = 1;
  SymInt length;
};

// `bound` counted from the beginning. Bounds that depend on symbols count from
// there unless they are known to be negative.
SymInt FromBeginning(const SymInt& bound, const SymInt& size) {
  return IsKnownNonNegative(-1 - bound) ? bound + size : bound;
}

Range Forward(const SymInt& start, const SymInt& end, std::int64_t step, const SymInt& size) {
  Range range;
  range.step = step;
  // A slice of an axis of symbolic size is taken to start inside it.
  range.start = FromBeginning(start, size);
  if (range.start.constant().has_value()) {
    range.start = Max(range.start, 0);
    if (size.constant().has_value()) range.start = Min(range.start, size);
  }
  SymInt stop = size;
  if (end.constant().value_or(0) < kToTheEnd) stop = Min(Max(FromBeginning(end, size), 0), size);
  range.length = Max(CeilDiv(stop - range.start, step), 0);
  return range;
}

Range Backward(const SymInt& start, const SymInt& end, std::int64_t step, const SymInt& size) {
  Range range;
  range.step = step;
  range.start = size - 1;
  if (start.constant().value_or(0) < kToTheEnd) range.start = Min(FromBeginning(start, size), size - 1);
  SymInt stop = -1;
  if (end.constant().value_or(0) > -kToTheEnd) stop = Max(FromBeginning(end, size), -1);
  range.length = Max(CeilDiv(range.start - stop, -step), 0);
  return range;
}

// One range for each axis; nullopt if bounds are unknown or do not fit.
std::optional<std::vector<Range>> ReadRanges(NodeView& node) {
  const Shape& x = node.in(0).shape;
  std::vector<Range> ranges(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) ranges[i].length = x[i];
  const std::optional<std::vector<SymInt>> starts = node.Ints("starts", 1);
  const std::optional<std::vector<SymInt>> ends = node.Ints("ends", 2);
  if (!starts.has_value() || !ends.has_value()) return std::nullopt;
  std::vector<std::int64_t> axes(starts->size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> steps(starts->size(), 1);
  if (node.HasInts("axes", 3)) {
    const std::optional<std::vector<std::int64_t>> given = node.ConstantInts("axes", 3);
    if (!given.has_value()) return std::nullopt;
    axes = *given;
  }
  if (node.HasInts("steps", 4)) {
    const std::optional<std::vector<std::int64_t>> given = node.ConstantInts("steps", 4);
    if (!given.has_value()) return std::nullopt;
    steps = *given;
  }
  if (ends->size() != starts->size() || axes.size() != starts->size() || steps.size() != starts->size()) {
    node.Mismatch("it has {} starts, {} ends, {} axes and {} steps", starts->size(), ends->size(), axes.size(),
                  steps.size());
    return std::nullopt;
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::optional<std::size_t> axis = node.Axis(axes[i], x.size());
    if (!axis.has_value()) return std::nullopt;
    if (steps[i] == 0 || steps[i] == std::numeric_limits<std::int64_t>::min()) {
      node.Mismatch("its step is {}", steps[i]);
      return std::nullopt;
    }
    ranges[*axis] = steps[i] > 0 ? Forward((*starts)[i], (*ends)[i], steps[i], x[*axis])
                                 : Backward((*starts)[i], (*ends)[i], steps[i], x[*axis]);
  }
  return ranges;
}

std::vector<Inferred> InferSlice(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::vector<Range>> ranges = ReadRanges(node);
  if (!ranges.has_value()) return {{x.type, Inferred::Dims(x.shape.size()), std::nullopt}};
  Shape shape;
  Shape starts;
  for (const Range& range : *ranges) {
    shape.push_back(range.length);
    starts.push_back(range.start);
  }
  Inferred result = Known(x.type, shape);
  const std::optional<std::vector<std::int64_t>> from = ConstantDims(x.shape);
  const std::optional<std::vector<std::int64_t>> to = ConstantDims(shape);
  const std::optional<std::vector<std::int64_t>> begin = ConstantDims(starts);
  if (node.contents(0) != nullptr && from.has_value() && to.has_value() && begin.has_value()) {
    result.contents = Rearranged(*node.contents(0), *to, [&](std::vector<std::int64_t> index) {
      for (std::size_t i = 0; i < index.size(); ++i) index[i] = (*begin)[i] + index[i] * (*ranges)[i].step;
      return BroadcastOffset(index, *from);
    });
  }
  return {std::move(result)};
}

// A slice of everything in order copies nothing.
GraphNode CostSlice(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<std::vector<Range>> ranges = ReadRanges(node);
  const bool in_order = ranges.has_value() &&
                        std::all_of(ranges->begin(), ranges->end(), [](const Range& range) { return range.step == 1; });
  return in_order && outputs[0].shape == node.in(0).shape ? CostView(node, outputs) : CostCopy(node, outputs);
}

std::vector<Inferred> InferOneHot(NodeView& node) {
  const Shape& indices = node.in(0).shape;
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", -1), indices.size() + 1);
  if (!axis.has_value()) return {};
  Inferred result = Known(node.in(2).type, indices);
  std::optional<SymInt> depth;
  if (node.contents(1) != nullptr && node.contents(1)->size() == 1) {
    const std::optional<Number> whole = FoldCast(node.contents(1)->front(), TensorProto::INT64);
    if (whole.has_value()) depth = std::get<SymInt>(*whole);
  }
  result.dims->insert(result.dims->begin() + static_cast<std::ptrdiff_t>(*axis), depth);
  return {std::move(result)};
}

std::vector<Inferred> InferTopK(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", -1), x.shape.size());
  if (!axis.has_value()) return {};
  Inferred::Dims dims(x.shape.begin(), x.shape.end());
  dims[*axis].reset();
  if (node.HasAttribute("k")) dims[*axis] = node.Int("k", 0);
  if (const std::optional<std::vector<SymInt>> k = node.IntsAt(1); k.has_value() && k->size() == 1) {
    dims[*axis] = k->front();
  }
  return {{x.type, dims, std::nullopt}, {TensorProto::INT64, dims, std::nullopt}};
}

// How many elements are not zero depends on the data: at most all.
std::vector<Inferred> InferNonZero(NodeView& node) {
  const Shape& x = node.in(0).shape;
  node.Assume("how many elements are not zero depends on the data; assumed to be all of them");
  return {Known(TensorProto::INT64, {static_cast<std::int64_t>(x.size()), ElementsOf(x)})};
}

}  // namespace

void AddIndexingOps(OpTable& table) {
  table.insert({
      {"Gather", {.infer = InferGather, .cost = CostGather, .min_inputs = 2}},
      {"GatherElements", {.infer = InferGatherElements, .cost = CostCopy, .min_inputs = 2}},
      {"GatherND", {.infer = InferGatherNd, .cost = CostCopy, .min_inputs = 2}},
      {"NonZero", {.infer = InferNonZero, .cost = CostTraffic}},
      {"OneHot", {.infer = InferOneHot, .cost = CostCopy, .min_inputs = 3}},
      {"Scatter", {.infer = InferScatter, .cost = CostCopy, .min_inputs = 3}},
      {"ScatterElements", {.infer = InferScatter, .cost = CostCopy, .min_inputs = 3}},
      {"ScatterND", {.infer = InferScatter, .cost = CostCopy, .min_inputs = 3}},
      {"Slice", {.infer = InferSlice, .cost = CostSlice}},
      {"TopK", {.infer = InferTopK, .cost = CostTraffic}},
  });
}

}  // namespace gpueta::onnx_import
