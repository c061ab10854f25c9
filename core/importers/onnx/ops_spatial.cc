// Pooling, resizing and rearranging of [batch, channels, spatial…] tensors.
#include <algorithm>

#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"
#include "core/importers/onnx/window.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

Shape SpatialDims(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

std::optional<std::vector<Window>> ReadPoolWindows(NodeView& node) {
  const Shape& x = node.in(0).shape;
  const std::vector<std::int64_t> kernel = node.Ints("kernel_shape");
  if (x.size() < 3 || kernel.size() != x.size() - 2) {
    node.Mismatch("a kernel_shape of {} dims does not fit an input of shape {}", kernel.size(), ToText(x));
    return std::nullopt;
  }
  for (std::int64_t size : kernel) {
    if (size >= 1) continue;
    node.Malformed("attribute kernel_shape holds {}, must be at least 1", size);
    return std::nullopt;
  }
  return ReadWindows(node, Shape(kernel.begin(), kernel.end()), SpatialDims(x));
}

std::vector<Inferred> InferPool(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::vector<Window>> windows = ReadPoolWindows(node);
  if (!windows.has_value()) return {};
  const bool round_up = node.Int("ceil_mode", 0) != 0;
  Shape shape(x.shape.begin(), x.shape.begin() + 2);
  for (std::size_t i = 0; i < windows->size(); ++i) {
    shape.push_back(OutputSize(node, (*windows)[i], x.shape[i + 2], round_up));
  }
  return {Known(x.type, shape), Known(TensorProto::INT64, shape)};
}

// Over the output; each element reads the inputs that its window does not share
// with the next, which are the operands.
GraphNode CostPool(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<std::vector<Window>> windows = ReadPoolWindows(node);
  if (!windows.has_value()) return CostTraffic(node, outputs);
  SymInt reads = 1;
  for (const Window& window : *windows) reads = reads * Min(window.stride, window.kernel);
  return VectorNode(KernelDType(node.in(0).type), "pool", outputs[0].shape, reads);
}

std::vector<Inferred> InferGlobalPool(NodeView& node) {
  const Tensor& x = node.in(0);
  Shape shape = x.shape;
  for (std::size_t i = 2; i < shape.size(); ++i) shape[i] = 1;
  return {Known(x.type, shape)};
}

GraphNode CostGlobalPool(NodeView& node, const std::vector<Tensor>& outputs) {
  const Shape& x = node.in(0).shape;
  if (x.size() < 2) return CostTraffic(node, outputs);
  return VectorNode(KernelDType(node.in(0).type), "reduce", x[0] * x[1], Product(x, 2, x.size()), 1);
}

// Output sizes from scales; those that are not known stay open.
Inferred::Dims ScaledDims(const Shape& shape, const std::vector<double>& scales) {
  Inferred::Dims dims;
  for (std::size_t i = 0; i < shape.size(); ++i) dims.push_back(Scaled(shape[i], scales[i]));
  return dims;
}

std::optional<std::vector<double>> FloatsAt(const NodeView& node, std::size_t input) {
  const Contents* contents = node.contents(input);
  if (contents == nullptr) return std::nullopt;
  std::vector<double> values;
  for (const Number& number : *contents) {
    const auto* value = std::get_if<double>(&number);
    if (value == nullptr) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

// Inputs: X, scales (opset 10, and Upsample 9) or X, roi, scales, sizes.
// Attribute scales in Upsample 7. Attribute axes from opset 18 on.
std::vector<Inferred> InferResize(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::size_t rank = x.shape.size();
  std::vector<std::size_t> axes;
  for (std::int64_t given : node.Ints("axes")) {
    const std::optional<std::size_t> axis = node.Axis(given, rank);
    if (!axis.has_value()) return {};
    axes.push_back(*axis);
  }
  for (std::size_t i = 0; i < rank && !node.HasAttribute("axes"); ++i) axes.push_back(i);

  Inferred result = Known(x.type, x.shape);
  if (const auto sizes = node.IntsAt(3); sizes.has_value() && sizes->size() == axes.size()) {
    for (std::size_t i = 0; i < axes.size(); ++i) (*result.dims)[axes[i]] = (*sizes)[i];
    return {std::move(result)};
  }
  const std::size_t scales_input = node.input_count() == 2 ? 1 : 2;
  std::optional<std::vector<double>> scales = FloatsAt(node, scales_input);
  if (node.HasAttribute("scales")) scales = node.Floats("scales");
  if (!scales.has_value() || scales->size() != axes.size()) return {{x.type, Inferred::Dims(rank), std::nullopt}};
  std::vector<double> all(rank, 1.0);
  for (std::size_t i = 0; i < axes.size(); ++i) all[axes[i]] = (*scales)[i];
  result.dims = ScaledDims(x.shape, all);
  return {std::move(result)};
}

GraphNode CostResize(NodeView& node, const std::vector<Tensor>& outputs) {
  return VectorNode(KernelDType(node.in(0).type), "resize", outputs[0].shape, 1);
}

// Samples input [batch, channels, spatial…] at the points of a grid [batch, out
// spatial…, coordinates].
std::vector<Inferred> InferGridSample(NodeView& node) {
  const Tensor& x = node.in(0);
  const Shape& grid = node.in(1).shape;
  if (x.shape.size() < 3 || grid.size() != x.shape.size()) {
    node.Mismatch("a grid of shape {} does not sample an input of shape {}", ToText(grid), ToText(x.shape));
    return {};
  }
  Shape shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  return {Known(x.type, shape)};
}

std::optional<std::int64_t> ReadBlock(NodeView& node) {
  const std::int64_t block = node.Int("blocksize", 0);
  constexpr std::int64_t kLargestBlock = 1 << 15;  // its square stays an int
  if (block < 1 || block > kLargestBlock) {
    node.Malformed("attribute blocksize is {}", block);
    return std::nullopt;
  }
  if (node.in(0).shape.size() != 4) {
    node.Mismatch("its input has {} dims, must have 4", node.in(0).shape.size());
    return std::nullopt;
  }
  return block;
}

std::vector<Inferred> InferDepthToSpace(NodeView& node) {
  const std::optional<std::int64_t> block = ReadBlock(node);
  if (!block.has_value()) return {};
  const Shape& x = node.in(0).shape;
  return {Known(node.in(0).type, {x[0], FloorDiv(x[1], *block * *block), x[2] * *block, x[3] * *block})};
}

std::vector<Inferred> InferSpaceToDepth(NodeView& node) {
  const std::optional<std::int64_t> block = ReadBlock(node);
  if (!block.has_value()) return {};
  const Shape& x = node.in(0).shape;
  return {Known(node.in(0).type, {x[0], x[1] * (*block * *block), FloorDiv(x[2], *block), FloorDiv(x[3], *block)})};
}

}  // namespace

void AddSpatialOps(OpTable& table) {
  const OpRule pool = {.infer = InferPool, .cost = CostPool};
  const OpRule global_pool = {.infer = InferGlobalPool, .cost = CostGlobalPool};
  const OpRule resize = {.infer = InferResize, .cost = CostResize};
  table.insert({
      {"AveragePool", pool},
      {"LpPool", pool},
      {"MaxPool", pool},
      {"QLinearAveragePool", pool},
      {"GlobalAveragePool", global_pool},
      {"GlobalLpPool", global_pool},
      {"GlobalMaxPool", global_pool},
      {"QLinearGlobalAveragePool", global_pool},
      {"GridSample", {.infer = InferGridSample, .cost = CostResize, .min_inputs = 2}},
      {"Resize", resize},
      {"Upsample", resize},
      {"DepthToSpace", {.infer = InferDepthToSpace, .cost = CostCopy}},
      {"SpaceToDepth", {.infer = InferSpaceToDepth, .cost = CostCopy}},
  });
}

}  // namespace gpueta::onnx_import
