// Operators that move elements or only rename their places.
#include <algorithm>
#include <numeric>

#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

// Same elements in the same order under another shape: contents carry over.
Inferred Reshaped(const NodeView& node, const Shape& shape) {
  Inferred result = Known(node.in(0).type, shape);
  const Contents* contents = node.contents(0);
  const std::optional<std::int64_t> count = SmallElementCount(shape);
  if (contents != nullptr && count == static_cast<std::int64_t>(contents->size())) result.contents = *contents;
  return result;
}

// One copy of the output, or nothing if output and input are known to be the
// same.
GraphNode CostCopyUnlessSame(NodeView& node, const std::vector<Tensor>& outputs) {
  const bool same = node.assumptions().empty() && outputs[0].shape == node.in(0).shape;
  return same ? CostView(node, outputs) : CostCopy(node, outputs);
}

std::vector<Inferred> InferIdentity(NodeView& node) { return {Reshaped(node, node.in(0).shape)}; }

std::vector<Inferred> InferDropout(NodeView& node) {
  return {Reshaped(node, node.in(0).shape), Known(TensorProto::BOOL, node.in(0).shape)};
}

std::vector<Inferred> InferReshape(NodeView& node) {
  const Tensor& x = node.in(0);
  if (!node.HasInts("shape", 1)) {
    node.Malformed("it has no shape to reshape to");
    return {};
  }
  const std::optional<std::vector<SymInt>> target = node.Ints("shape", 1);
  if (!target.has_value()) {
    // How many dims there are is known even so.
    const auto rank = node.in(1).shape.size() == 1 ? node.in(1).shape[0].constant() : std::nullopt;
    if (!rank.has_value() || *rank < 0 || *rank > static_cast<std::int64_t>(kMaxRank)) return {{x.type, {}, {}}};
    return {{x.type, Inferred::Dims(static_cast<std::size_t>(*rank)), {}}};
  }
  const bool copies_zero = node.Int("allowzero", 0) == 0;
  Shape shape;
  std::optional<std::size_t> open;  // the axis given as -1
  SymInt known = 1;
  for (std::size_t i = 0; i < target->size(); ++i) {
    SymInt dim = (*target)[i];
    if (dim == -1 && open.has_value()) {
      node.Mismatch("its shape {} leaves two dims open", ToText(*target));
      return {};
    }
    if (dim == -1) {
      open = i;
      dim = 1;
    } else if (dim == 0 && copies_zero) {
      if (i >= x.shape.size()) {
        node.Mismatch("its shape {} copies dim {} of {}", ToText(*target), i, ToText(x.shape));
        return {};
      }
      dim = x.shape[i];
    }
    known = known * dim;
    shape.push_back(std::move(dim));
  }
  const SymInt elements = ElementsOf(x.shape);
  if (open.has_value()) {
    if (known == 0) {
      node.Mismatch("its shape {} leaves a dim open that any size fits", ToText(*target));
      return {};
    }
    shape[*open] = FloorDiv(elements, known);
    known = known * shape[*open];
  }
  if (known.constant().has_value() && elements.constant().has_value() && known != elements) {
    node.Mismatch("{} elements of shape {} cannot take the shape {}", elements.ToString(), ToText(x.shape),
                  ToText(*target));
    return {};
  }
  return {Reshaped(node, shape)};
}

std::vector<Inferred> InferFlatten(NodeView& node) {
  const Shape& x = node.in(0).shape;
  const std::int64_t given = node.Int("axis", 1);
  const auto rank = static_cast<std::int64_t>(x.size());
  if (given < -rank || given > rank) {
    node.Mismatch("axis {} is outside a tensor of {} dims", given, rank);
    return {};
  }
  const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
  return {Reshaped(node, {Product(x, 0, axis), Product(x, axis, x.size())})};
}

std::vector<Inferred> InferSqueeze(NodeView& node) {
  const Tensor& x = node.in(0);
  std::vector<bool> dropped(x.shape.size(), false);
  if (node.HasInts("axes", 1)) {
    const std::optional<std::vector<std::int64_t>> axes = node.ConstantInts("axes", 1);
    if (!axes.has_value()) return {{x.type, {}, {}}};
    for (std::int64_t given : *axes) {
      const std::optional<std::size_t> axis = node.Axis(given, x.shape.size());
      if (!axis.has_value()) return {};
      dropped[*axis] = true;
    }
  } else {
    for (std::size_t i = 0; i < x.shape.size(); ++i) dropped[i] = x.shape[i] == 1;
  }
  Shape shape;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (!dropped[i]) shape.push_back(x.shape[i]);
  }
  return {Reshaped(node, shape)};
}

std::vector<Inferred> InferUnsqueeze(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::vector<std::int64_t>> axes = node.ConstantInts("axes", 1);
  if (!axes.has_value()) return {{x.type, {}, {}}};
  const std::size_t rank = x.shape.size() + axes->size();
  if (rank > kMaxRank) {
    node.Mismatch("its result has {} dims; at most {} are supported", rank, kMaxRank);
    return {};
  }
  std::vector<bool> inserted(rank, false);
  for (std::int64_t given : *axes) {
    const std::optional<std::size_t> axis = node.Axis(given, rank);
    if (!axis.has_value()) return {};
    if (inserted[*axis]) {
      node.Mismatch("axis {} is given twice", given);
      return {};
    }
    inserted[*axis] = true;
  }
  Shape shape;
  auto next = x.shape.begin();
  for (std::size_t i = 0; i < rank; ++i) shape.push_back(inserted[i] ? SymInt(1) : *next++);
  return {Reshaped(node, shape)};
}

std::optional<std::vector<std::size_t>> ReadPermutation(NodeView& node, std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  const std::vector<std::int64_t> given = node.Ints("perm");
  if (given.empty()) return order;
  std::vector<bool> used(rank, false);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::optional<std::size_t> axis = node.Axis(given[i], rank);
    if (!axis.has_value()) return std::nullopt;
    if (given.size() != rank || used[*axis]) {
      node.Mismatch("its perm is no permutation of {} axes", rank);
      return std::nullopt;
    }
    used[*axis] = true;
    order[i] = *axis;
  }
  return order;
}

std::vector<Inferred> InferTranspose(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::vector<std::size_t>> order = ReadPermutation(node, x.shape.size());
  if (!order.has_value()) return {};
  Shape shape;
  for (std::size_t axis : *order) shape.push_back(x.shape[axis]);
  Inferred result = Known(x.type, shape);
  const std::optional<std::vector<std::int64_t>> from = ConstantDims(x.shape);
  const std::optional<std::vector<std::int64_t>> to = ConstantDims(shape);
  if (node.contents(0) != nullptr && from.has_value()) {
    result.contents = Rearranged(*node.contents(0), *to, [&](const std::vector<std::int64_t>& index) {
      std::vector<std::int64_t> source(index.size());
      for (std::size_t i = 0; i < index.size(); ++i) source[(*order)[i]] = index[i];
      return BroadcastOffset(source, *from);
    });
  }
  return {std::move(result)};
}

// A transposition that moves only axes of size 1 leaves the elements in place.
GraphNode CostTranspose(NodeView& node, const std::vector<Tensor>& outputs) {
  const Shape& x = node.in(0).shape;
  const std::optional<std::vector<std::size_t>> order = ReadPermutation(node, x.size());
  if (!order.has_value()) return CostCopy(node, outputs);
  std::vector<std::size_t> moved;
  for (std::size_t axis : *order) {
    if (x[axis] != 1) moved.push_back(axis);
  }
  return std::is_sorted(moved.begin(), moved.end()) ? CostView(node, outputs) : CostCopy(node, outputs);
}

// Contents of inputs concatenated along `axis`, if all are known.
std::optional<Contents> FoldConcat(const NodeView& node, std::size_t axis, const Shape& shape) {
  const std::optional<std::vector<std::int64_t>> to = ConstantDims(shape);
  if (!to.has_value() || !SmallElementCount(shape).has_value()) return std::nullopt;
  if (SmallElementCount(shape) == 0) return Contents();
  // Blocks of the axes from `axis` on, one from each input in turn.
  std::int64_t blocks = 1;
  for (std::size_t i = 0; i < axis; ++i) blocks *= (*to)[i];
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (node.contents(i) == nullptr) return std::nullopt;
  }
  Contents contents;
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::size_t i = 0; i < node.input_count(); ++i) {
      const Contents& part = *node.contents(i);
      const auto length = static_cast<std::int64_t>(part.size()) / blocks;
      contents.insert(contents.end(), part.begin() + block * length, part.begin() + (block + 1) * length);
    }
  }
  return contents;
}

std::vector<Inferred> InferConcat(NodeView& node) {
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", 1), node.in(0).shape.size());
  if (!axis.has_value()) return {};
  Shape shape = node.in(0).shape;
  for (std::size_t i = 1; i < node.input_count(); ++i) {
    if (!node.has(i) || node.in(i).shape.size() != shape.size()) {
      node.Mismatch("input {} has not the {} dims of the first", i, shape.size());
      return {};
    }
    const Shape& part = node.in(i).shape;
    for (std::size_t j = 0; j < shape.size(); ++j) {
      if (j == *axis || shape[j] == part[j]) continue;
      if (part[j].constant().has_value() && shape[j].constant().has_value()) {
        node.Mismatch("input {} of shape {} does not fit beside {}", i, ToText(part), ToText(node.in(0).shape));
        return {};
      }
      // One and the same size: a number says more than an expression.
      if (part[j].constant().has_value()) shape[j] = part[j];
    }
    shape[*axis] = shape[*axis] + part[*axis];
  }
  Inferred result = Known(node.in(0).type, shape);
  result.contents = FoldConcat(node, *axis, shape);
  return {std::move(result)};
}

// Inputs: the result's scale and zero point, then each part with its own.
std::vector<Inferred> InferQuantisedConcat(NodeView& node) {
  constexpr std::size_t kFirst = 2;
  const Tensor& first = node.in(kFirst);
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", 0), first.shape.size());
  if (!axis.has_value()) return {};
  Shape shape = first.shape;
  for (std::size_t i = kFirst + 3; i < node.input_count(); i += 3) {
    if (!node.has(i) || node.in(i).shape.size() != shape.size()) {
      node.Mismatch("input {} has not the {} dims of the first", i, shape.size());
      return {};
    }
    shape[*axis] = shape[*axis] + node.in(i).shape[*axis];
  }
  return {Known(first.type, shape)};
}

GraphNode CostConcat(NodeView& node, const std::vector<Tensor>& outputs) {
  return node.input_count() == 1 ? CostView(node, outputs) : CostCopy(node, outputs);
}

// Sizes of the parts along an axis of size `whole`; empty if unknown.
std::vector<SymInt> SplitSizes(NodeView& node, const SymInt& whole) {
  const auto parts = static_cast<std::int64_t>(node.output_count());
  if (node.HasInts("split", 1)) return node.Ints("split", 1).value_or(std::vector<SymInt>());
  // Without sizes the parts are equal; with num_outputs the last may be smaller.
  const SymInt part = CeilDiv(whole, parts);
  std::vector<SymInt> sizes(static_cast<std::size_t>(parts), part);
  sizes.back() = whole - part * (parts - 1);
  return sizes;
}

std::vector<Inferred> InferSplit(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", 0), x.shape.size());
  if (!axis.has_value()) return {};
  const std::vector<SymInt> sizes = SplitSizes(node, x.shape[*axis]);
  std::vector<Inferred> results;
  std::int64_t begin = 0;
  for (const SymInt& size : sizes) {
    Shape shape = x.shape;
    shape[*axis] = size;
    Inferred& result = results.emplace_back(Known(x.type, shape));
    if (node.contents(0) == nullptr || x.shape.size() != 1 || !size.constant().has_value()) continue;
    const Contents& all = *node.contents(0);
    const std::int64_t end = begin + *size.constant();
    if (*size.constant() < 0 || end > static_cast<std::int64_t>(all.size())) continue;
    result.contents = Contents(all.begin() + begin, all.begin() + end);
    begin = end;
  }
  return results;
}

// All parts together are one copy of the input.
GraphNode CostSplit(NodeView& node, const std::vector<Tensor>& outputs) {
  if (outputs.size() == 1) return CostView(node, outputs);
  return VectorNode(KernelDType(node.in(0).type), "copy", node.in(0).shape, 1);
}

std::vector<Inferred> InferPad(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::size_t rank = x.shape.size();
  // "paddings" in opset 1
  const std::string_view attribute = node.HasAttribute("paddings") ? "paddings" : "pads";
  const std::optional<std::vector<SymInt>> pads = node.Ints(attribute, 1);
  if (!pads.has_value()) return {{x.type, Inferred::Dims(rank), {}}};
  std::vector<std::size_t> axes(rank);
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  if (node.has(3)) {
    const std::optional<std::vector<SymInt>> given = node.IntsAt(3);
    if (!given.has_value()) return {{x.type, Inferred::Dims(rank), {}}};
    axes.clear();
    for (const SymInt& axis : *given) axes.push_back(node.Axis(axis.constant().value_or(0), rank).value_or(rank));
    if (std::find(axes.begin(), axes.end(), rank) != axes.end()) return {};
  }
  if (pads->size() != 2 * axes.size()) {
    node.Mismatch("it has {} pads for {} axes", pads->size(), axes.size());
    return {};
  }
  Shape shape = x.shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    shape[axes[i]] = shape[axes[i]] + (*pads)[i] + (*pads)[i + axes.size()];
  }
  return {Known(x.type, shape)};
}

std::vector<Inferred> InferExpand(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::vector<SymInt>> target = node.IntsAt(1);
  if (!target.has_value()) return {{x.type, {}, {}}};
  const std::optional<Shape> shape = Broadcast(x.shape, *target);
  if (!shape.has_value()) {
    node.Mismatch("shape {} does not expand to {}", ToText(x.shape), ToText(*target));
    return {};
  }
  Inferred result = Known(x.type, *shape);
  const std::optional<std::vector<std::int64_t>> from = ConstantDims(x.shape);
  const std::optional<std::vector<std::int64_t>> to = ConstantDims(*shape);
  if (node.contents(0) != nullptr && from.has_value() && to.has_value() && SmallElementCount(*shape).has_value()) {
    result.contents = Rearranged(*node.contents(0), *to,
                                 [&](const std::vector<std::int64_t>& index) { return BroadcastOffset(index, *from); });
  }
  return {std::move(result)};
}

std::vector<Inferred> InferTile(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::vector<SymInt>> repeats = node.IntsAt(1);
  if (!repeats.has_value()) return {{x.type, Inferred::Dims(x.shape.size()), {}}};
  if (repeats->size() != x.shape.size()) {
    node.Mismatch("it has {} repeats for {} dims", repeats->size(), x.shape.size());
    return {};
  }
  Shape shape;
  for (std::size_t i = 0; i < x.shape.size(); ++i) shape.push_back(x.shape[i] * (*repeats)[i]);
  Inferred result = Known(x.type, shape);
  const std::optional<std::vector<std::int64_t>> from = ConstantDims(x.shape);
  const std::optional<std::vector<std::int64_t>> to = ConstantDims(shape);
  if (node.contents(0) != nullptr && from.has_value() && to.has_value() && SmallElementCount(shape).value_or(0) > 0) {
    result.contents = Rearranged(*node.contents(0), *to, [&](std::vector<std::int64_t> index) {
      for (std::size_t i = 0; i < index.size(); ++i) index[i] %= (*from)[i];
      return BroadcastOffset(index, *from);
    });
  }
  return {std::move(result)};
}

// Same shape, elements moved or masked.
std::vector<Inferred> InferSame(NodeView& node) { return {Known(node.in(0).type, node.in(0).shape)}; }

}  // namespace

void AddLayoutOps(OpTable& table) {
  table.insert({
      {"Dropout", {.infer = InferDropout, .cost = CostView}},
      {"Flatten", {.infer = InferFlatten, .cost = CostView}},
      {"Identity", {.infer = InferIdentity, .cost = CostView}},
      {"Reshape", {.infer = InferReshape, .cost = CostView}},
      {"Squeeze", {.infer = InferSqueeze, .cost = CostView}},
      {"Unsqueeze", {.infer = InferUnsqueeze, .cost = CostView}},

      {"Concat", {.infer = InferConcat, .cost = CostConcat}},
      {"Expand", {.infer = InferExpand, .cost = CostCopyUnlessSame, .min_inputs = 2}},
      {"Pad", {.infer = InferPad, .cost = CostCopyUnlessSame}},
      {"QLinearConcat", {.infer = InferQuantisedConcat, .cost = CostCopy, .min_inputs = 3}},
      {"ReverseSequence", {.infer = InferSame, .cost = CostCopy}},
      {"Split", {.infer = InferSplit, .cost = CostSplit}},
      {"Tile", {.infer = InferTile, .cost = CostCopyUnlessSame, .min_inputs = 2}},
      {"Transpose", {.infer = InferTranspose, .cost = CostTranspose}},
      {"Trilu", {.infer = InferSame, .cost = CostCopy}},
  });
}

}  // namespace gpueta::onnx_import
