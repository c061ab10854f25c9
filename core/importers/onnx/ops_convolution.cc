// Convolutions, plain, transposed and quantised.
#include <algorithm>

#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"
#include "core/importers/onnx/window.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

constexpr std::size_t kFirstSpatial = 2;  // [batch, channels, spatial…]

// Position of the weights: after input, scale and zero point in QLinearConv.
std::size_t WeightsInput(const NodeView& node) { return node.proto().op_type() == "QLinearConv" ? 3 : 1; }

std::optional<std::int64_t> ReadGroups(NodeView& node) {
  const std::int64_t groups = node.Int("group", 1);
  if (groups < 1) {
    node.Malformed("attribute group is {}, must be at least 1", groups);
    return std::nullopt;
  }
  return groups;
}

// Windows over the input's spatial dims; checks that input and weights fit.
std::optional<std::vector<Window>> ReadConvWindows(NodeView& node) {
  const Shape& x = node.in(0).shape;
  const Shape& w = node.in(WeightsInput(node)).shape;
  if (x.size() < kFirstSpatial + 1 || w.size() != x.size()) {
    node.Mismatch("weights of shape {} do not fit an input of shape {}", ToText(w), ToText(x));
    return std::nullopt;
  }
  return ReadWindows(node, Shape(w.begin() + kFirstSpatial, w.end()), Shape(x.begin() + kFirstSpatial, x.end()));
}

ElementType ConvOutputType(const NodeView& node) {
  if (node.proto().op_type() == "ConvInteger") return TensorProto::INT32;
  constexpr std::size_t kOutputZeroPoint = 7;
  if (node.proto().op_type() == "QLinearConv" && node.has(kOutputZeroPoint)) return node.in(kOutputZeroPoint).type;
  return node.in(0).type;
}

std::vector<Inferred> InferConv(NodeView& node) {
  const std::optional<std::vector<Window>> windows = ReadConvWindows(node);
  const std::optional<std::int64_t> groups = ReadGroups(node);
  if (!windows.has_value() || !groups.has_value()) return {};
  const Shape& x = node.in(0).shape;
  const Shape& w = node.in(WeightsInput(node)).shape;
  const SymInt in_channels = w[1] * *groups;
  if (in_channels.constant().has_value() && x[1].constant().has_value() && in_channels != x[1]) {
    node.Mismatch("weights of shape {} in {} groups do not fit {} input channels", ToText(w), *groups, x[1].ToString());
    return {};
  }
  Shape shape = {x[0], w[0]};
  for (std::size_t i = 0; i < windows->size(); ++i) {
    shape.push_back(OutputSize(node, (*windows)[i], x[i + kFirstSpatial]));
  }
  return {Known(ConvOutputType(node), shape)};
}

// A convolution from `from` to `to` channels over an input of the spatial dims
// `size`; of one or two spatial axes.
GraphNode Conv2dNode(DType dtype, const SymInt& batch, const SymInt& from, const SymInt& to, std::int64_t groups,
                     const std::vector<SymInt>& size, const std::vector<Window>& windows) {
  const bool one_axis = windows.size() == 1;
  const Window none;  // a 1-D convolution has height 1 and a kernel of height 1
  const Window& h = one_axis ? none : windows[0];
  const Window& w = windows.back();
  return MakeNode(dtype, Conv2d{},
                  {{"batch", batch},
                   {"in_channels", from},
                   {"height", one_axis ? SymInt(1) : size[0]},
                   {"width", size.back()},
                   {"out_channels", to},
                   {"kernel_h", h.kernel},
                   {"kernel_w", w.kernel},
                   {"stride_h", h.stride},
                   {"stride_w", w.stride},
                   {"pad_h", h.pad_begin},
                   {"pad_w", w.pad_begin},
                   {"groups", groups},
                   {"dilation_h", h.dilation},
                   {"dilation_w", w.dilation},
                   {"extra_pad_h", h.pad_end - h.pad_begin},
                   {"extra_pad_w", w.pad_end - w.pad_begin}});
}

// Of more axes: as a custom kernel with its FLOPs and the bytes of input,
// weights and output. `applied_to` has one element for each application of the
// kernel: the output, or a transposed convolution's input.
GraphNode ConvNdNode(const NodeView& node, std::string_view op, const Shape& applied_to, const Tensor& output) {
  const Tensor& x = node.in(0);
  const Tensor& w = node.in(WeightsInput(node));
  // One multiply-add a weight, but those of other groups' channels.
  const SymInt macs = FloorDiv(ElementsOf(applied_to) * ElementsOf(w.shape), w.shape[0]);
  const SymInt bits = ElementsOf(x.shape) * BitsOf(x.type) + ElementsOf(w.shape) * BitsOf(w.type) +
                      ElementsOf(output.shape) * BitsOf(output.type);
  Custom work;
  work.op = fmt::format("{}{}d", op, x.shape.size() - kFirstSpatial);
  return MakeNode(KernelDType(x.type), work, {{"flops", 2 * macs}, {"bytes", CeilDiv(bits, 8)}});
}

bool IsNumbered(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && name.size() > prefix.size() &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

// Whether the exporter multiplied a batch norm into the weights: PyTorch's name
// what they computed themselves by number (TorchScript), or the bias by its
// weight (dynamo); the rest keeps the names of the module's parameters.
Folded FoldedInto(const NodeView& node) {
  constexpr std::size_t kBias = 2;
  if (node.proto().op_type() != "Conv" || !node.has(kBias)) return Folded::kNothing;
  const std::string& weight = node.proto().input(1);
  const std::string& bias = node.proto().input(kBias);
  const bool by_number = IsNumbered(weight, "onnx::Conv_") && IsNumbered(bias, "onnx::Conv_");
  return by_number || bias == weight + "_bias" ? Folded::kBatchNorm : Folded::kBias;
}

GraphNode CostConv(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<std::vector<Window>> windows = ReadConvWindows(node);
  const std::optional<std::int64_t> groups = ReadGroups(node);
  if (!windows.has_value() || !groups.has_value()) return CostTraffic(node, outputs);
  const Shape& x = node.in(0).shape;
  const Shape& w = node.in(WeightsInput(node)).shape;
  if (windows->size() > 2) return ConvNdNode(node, "conv", outputs[0].shape, outputs[0]);
  GraphNode conv = Conv2dNode(KernelDType(node.in(0).type), x[0], w[1] * *groups, w[0], *groups,
                              Shape(x.begin() + kFirstSpatial, x.end()), *windows);
  conv.folded = FoldedInto(node);
  return conv;
}

// out = stride·(in − 1) + output_padding + span − pads. Given output_shape or
// auto_pad, the pads follow.
struct TransposedAxis {
  Window window;
  SymInt output;
};

std::optional<std::vector<TransposedAxis>> ReadTransposedAxes(NodeView& node) {
  const std::optional<std::vector<Window>> windows = ReadConvWindows(node);
  if (!windows.has_value()) return std::nullopt;
  const std::size_t axes = windows->size();
  std::vector<std::int64_t> padding = node.Ints("output_padding");
  if (padding.empty()) padding.assign(axes, 0);
  std::vector<std::int64_t> given = node.Ints("output_shape");
  // Some exporters give batch and channels as well.
  if (given.size() == axes + kFirstSpatial) given.erase(given.begin(), given.begin() + kFirstSpatial);
  const bool sizes_fit = padding.size() == axes && (given.empty() || given.size() == axes);
  if (!sizes_fit || std::any_of(padding.begin(), padding.end(), [](std::int64_t p) { return p < 0; })) {
    node.Malformed("attributes output_padding and output_shape do not fit {} spatial axes", axes);
    return std::nullopt;
  }
  const std::string auto_pad = node.String("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  std::vector<TransposedAxis> result;
  for (std::size_t i = 0; i < axes; ++i) {
    TransposedAxis axis = {(*windows)[i], 0};
    Window& window = axis.window;
    const SymInt& size = node.in(0).shape[i + kFirstSpatial];
    const SymInt unpadded = (size - 1) * window.stride + padding[i] + window.span();
    if (given.empty() && !same) {
      axis.output = unpadded - window.pad_begin - window.pad_end;
    } else {
      axis.output = given.empty() ? size * window.stride : SymInt(given[i]);
      const SymInt pads = Max(unpadded - axis.output, 0);
      window.pad_begin = FloorDiv(pads, 2);
      window.pad_end = pads - window.pad_begin;
    }
    result.push_back(axis);
  }
  return result;
}

std::vector<Inferred> InferConvTranspose(NodeView& node) {
  const std::optional<std::vector<TransposedAxis>> axes = ReadTransposedAxes(node);
  const std::optional<std::int64_t> groups = ReadGroups(node);
  if (!axes.has_value() || !groups.has_value()) return {};
  Shape shape = {node.in(0).shape[0], node.in(1).shape[1] * *groups};
  for (const TransposedAxis& axis : *axes) shape.push_back(axis.output);
  return {Known(node.in(0).type, shape)};
}

// A transposed convolution is the data gradient of the convolution that leads
// from its output to its input: same kernel, same multiply-adds, same tensors.
GraphNode CostConvTranspose(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<std::vector<TransposedAxis>> axes = ReadTransposedAxes(node);
  const std::optional<std::int64_t> groups = ReadGroups(node);
  if (!axes.has_value() || !groups.has_value()) return CostTraffic(node, outputs);
  const Tensor& x = node.in(0);
  const Shape& w = node.in(1).shape;
  if (axes->size() > 2) return ConvNdNode(node, "conv_transpose", x.shape, outputs[0]);
  std::vector<Window> windows;
  Shape size;
  for (const TransposedAxis& axis : *axes) {
    windows.push_back(axis.window);
    size.push_back(axis.output);
  }
  return Conv2dNode(KernelDType(x.type), x.shape[0], w[1] * *groups, w[0], *groups, size, windows);
}

}  // namespace

void AddConvolutionOps(OpTable& table) {
  const OpRule conv = {.infer = InferConv, .cost = CostConv, .min_inputs = 2};
  table.insert({
      {"Conv", conv},
      {"ConvInteger", conv},
      {"FusedConv", conv},
      {"ConvTranspose", {.infer = InferConvTranspose, .cost = CostConvTranspose, .min_inputs = 2}},
      {"QLinearConv", {.infer = InferConv, .cost = CostConv, .min_inputs = 4}},
  });
}

}  // namespace gpueta::onnx_import
