// Operators of object detection, and others whose result's size depends on the
// data.
#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

// Boxes [batch, boxes, 4], scores [batch, classes, boxes] to at most
// max_output_boxes_per_class indices of each class.
std::vector<Inferred> InferNonMaxSuppression(NodeView& node) {
  const Shape& scores = node.in(1).shape;
  if (scores.size() != 3) {
    node.Mismatch("scores of shape {} must have 3 dims", ToText(scores));
    return {};
  }
  SymInt selected = 0;
  if (const auto most = node.IntsAt(2); most.has_value() && most->size() == 1) selected = Min(most->front(), scores[2]);
  if (!(selected == 0)) node.Assume("how many boxes are selected depends on the data; assumed to be as many as may be");
  return {Known(TensorProto::INT64, {scores[0] * scores[1] * selected, 3})};
}

// Regions of interest [regions, 4] of an input [batch, channels, spatial…].
std::vector<Inferred> InferRoi(NodeView& node) {
  const Tensor& x = node.in(0);
  const Shape& rois = node.in(1).shape;
  if (x.shape.size() != 4 || rois.size() != 2) {
    node.Mismatch("regions of shape {} do not fit an input of shape {}", ToText(rois), ToText(x.shape));
    return {};
  }
  SymInt height = node.Int("output_height", 1);
  SymInt width = node.Int("output_width", 1);
  if (const std::vector<std::int64_t> pooled = node.Ints("pooled_shape"); pooled.size() == 2) {
    height = pooled[0];
    width = pooled[1];
  }
  return {Known(x.type, {rois[0], x.shape[1], height, width})};
}

GraphNode CostRoi(NodeView& /*node*/, const std::vector<Tensor>& outputs) {
  return VectorNode(KernelDType(outputs[0].type), "resize", outputs[0].shape, 1);
}

// Keeps the slices that a bool vector marks.
std::vector<Inferred> InferCompress(NodeView& node) {
  const Tensor& x = node.in(0);
  node.Assume("how much is kept depends on the data; assumed to be all");
  if (!node.HasAttribute("axis")) return {Known(x.type, {ElementsOf(x.shape)})};
  if (!node.Axis(node.Int("axis", 0), x.shape.size()).has_value()) return {};
  return {Known(x.type, x.shape)};
}

std::vector<Inferred> InferUnique(NodeView& node) {
  const Tensor& x = node.in(0);
  node.Assume("how many elements are unique depends on the data; assumed to be all");
  SymInt count = ElementsOf(x.shape);
  Shape unique = {count};
  if (node.HasAttribute("axis")) {
    const std::optional<std::size_t> axis = node.Axis(node.Int("axis", 0), x.shape.size());
    if (!axis.has_value()) return {};
    count = x.shape[*axis];
    unique = x.shape;
  }
  const Inferred indices = Known(TensorProto::INT64, {count});
  return {Known(x.type, unique), indices, Known(TensorProto::INT64, {count}), indices};
}

// Losses of class scores [batch, classes, …]: a number, or one an example.
std::vector<Inferred> InferLoss(NodeView& node) {
  const Tensor& scores = node.in(0);
  const Inferred log_probability = Known(scores.type, scores.shape);
  if (node.String("reduction", "mean") != "none") return {Known(scores.type, {}), log_probability};
  return {Known(scores.type, node.in(1).shape), log_probability};
}

GraphNode CostLoss(NodeView& node, const std::vector<Tensor>& /*outputs*/) {
  const Tensor& scores = node.in(0);
  const SymInt classes = scores.shape.size() > 1 ? scores.shape[1] : SymInt(1);
  return VectorNode(KernelDType(scores.type), node.rule().kernel, FloorDiv(ElementsOf(scores.shape), classes), classes,
                    1);
}

}  // namespace

void AddDetectionOps(OpTable& table) {
  const OpRule roi = {.infer = InferRoi, .cost = CostRoi, .min_inputs = 2};
  table.insert({
      {"Compress", {.infer = InferCompress, .cost = CostCopy, .min_inputs = 2}},
      {"MaxRoiPool", roi},
      {"NegativeLogLikelihoodLoss", {.infer = InferLoss, .cost = CostLoss, .kernel = "reduce", .min_inputs = 2}},
      {"NonMaxSuppression", {.infer = InferNonMaxSuppression, .cost = CostTraffic, .min_inputs = 2}},
      {"RoiAlign", roi},
      {"SoftmaxCrossEntropyLoss", {.infer = InferLoss, .cost = CostLoss, .kernel = "softmax", .min_inputs = 2}},
      {"Unique", {.infer = InferUnique, .cost = CostTraffic}},
  });
}

}  // namespace gpueta::onnx_import
