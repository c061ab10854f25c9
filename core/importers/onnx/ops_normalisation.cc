// Softmax and normalisations.
#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

std::vector<Inferred> InferSame(NodeView& node) { return {Known(node.in(0).type, node.in(0).shape)}; }

// Row operator over the axes from `first` on.
GraphNode FromAxis(NodeView& node, std::size_t first, const SymInt& operands) {
  const Tensor& x = node.in(0);
  return VectorNode(KernelDType(x.type), node.rule().kernel, Product(x.shape, 0, first),
                    Product(x.shape, first, x.shape.size()), operands);
}

// From opset 13 on along one axis; before, over all from the axis on.
GraphNode CostSoftmax(NodeView& node, const std::vector<Tensor>& outputs) {
  constexpr std::int64_t kOneAxisOpset = 13;
  const Tensor& x = node.in(0);
  const bool one_axis = node.opset() >= kOneAxisOpset;
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", one_axis ? -1 : 1), x.shape.size());
  if (!axis.has_value()) return CostTraffic(node, outputs);
  if (!one_axis) return FromAxis(node, *axis, 1);
  const SymInt rows = Product(x.shape, 0, *axis) * Product(x.shape, *axis + 1, x.shape.size());
  return VectorNode(KernelDType(x.type), node.rule().kernel, rows, x.shape[*axis], 1);
}

// Along the axis, or over the axes from it on; statistics keep the dims as 1.
std::vector<Inferred> InferLayerNorm(NodeView& node) {
  const Tensor& x = node.in(0);
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", -1), x.shape.size());
  if (!axis.has_value()) return {};
  Shape statistics = x.shape;
  for (std::size_t i = *axis; i < statistics.size(); ++i) statistics[i] = 1;
  const Inferred statistic = Known(TensorProto::FLOAT, statistics);
  return {Known(x.type, x.shape), statistic, statistic};
}

GraphNode CostLayerNorm(NodeView& node, const std::vector<Tensor>& outputs) {
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", -1), node.in(0).shape.size());
  if (!axis.has_value()) return CostTraffic(node, outputs);
  return FromAxis(node, *axis, 1);
}

// Of the sum of inputs 0 and 1, which is output 3.
std::vector<Inferred> InferSkipLayerNorm(NodeView& node) {
  const Tensor& x = node.in(0);
  if (x.shape.empty()) {
    node.Mismatch("its input is a scalar");
    return {};
  }
  Shape statistics = x.shape;
  statistics.back() = 1;
  const Inferred statistic = Known(TensorProto::FLOAT, statistics);
  return {Known(x.type, x.shape), statistic, statistic, Known(x.type, x.shape)};
}

GraphNode CostSkipLayerNorm(NodeView& node, const std::vector<Tensor>& outputs) {
  const Shape& x = node.in(0).shape;
  if (x.empty()) return CostTraffic(node, outputs);
  return FromAxis(node, x.size() - 1, 2);
}

// Word, position and segment embeddings, summed and normalised: [batch,
// sequence, hidden]; the mask's length of each sequence.
std::vector<Inferred> InferEmbedLayerNorm(NodeView& node) {
  const Shape& ids = node.in(0).shape;
  const Tensor& table = node.in(2);
  if (ids.size() != 2 || table.shape.size() != 2) {
    node.Mismatch("its ids and table are not matrices");
    return {};
  }
  const Shape embedded = {ids[0], ids[1], table.shape[1]};
  return {Known(table.type, embedded), Known(TensorProto::INT32, {ids[0]}), Known(table.type, embedded)};
}

GraphNode CostEmbedLayerNorm(NodeView& /*node*/, const std::vector<Tensor>& outputs) {
  constexpr int kTables = 3;
  return VectorNode(KernelDType(outputs[0].type), "layernorm", outputs[0].shape, kTables);
}

// Outputs past the first exist in training only: statistics, like the scale.
std::vector<Inferred> InferBatchNorm(NodeView& node) {
  std::vector<Inferred> results = InferSame(node);
  while (node.has(1) && results.size() < node.output_count()) {
    results.push_back(Known(node.in(1).type, node.in(1).shape));
  }
  return results;
}

GraphNode CostBatchNorm(NodeView& node, const std::vector<Tensor>& outputs) {
  return VectorNode(KernelDType(outputs[0].type), node.rule().kernel, outputs[0].shape, 1);
}

// [batch, channels, spatial…]; rows are what one mean is taken over.
GraphNode GroupNormNode(NodeView& node, const std::vector<Tensor>& outputs, const std::optional<SymInt>& groups) {
  const Tensor& x = node.in(0);
  if (x.shape.size() < 2) return CostTraffic(node, outputs);
  const SymInt rows = x.shape[0] * groups.value_or(x.shape[1]);
  const SymInt cols = FloorDiv(ElementsOf(x.shape), rows);
  return VectorNode(KernelDType(x.type), node.rule().kernel, rows, cols, 1);
}

GraphNode CostInstanceNorm(NodeView& node, const std::vector<Tensor>& outputs) {
  return GroupNormNode(node, outputs, std::nullopt);
}

GraphNode CostGroupNorm(NodeView& node, const std::vector<Tensor>& outputs) {
  // "groups" in com.microsoft
  const std::int64_t groups = node.Int("num_groups", node.Int("groups", 1));
  if (groups < 1) {
    node.Malformed("attribute num_groups is {}, must be at least 1", groups);
    return CostTraffic(node, outputs);
  }
  return GroupNormNode(node, outputs, groups);
}

GraphNode CostAlongAxis(NodeView& node, const std::vector<Tensor>& outputs) {
  const Tensor& x = node.in(0);
  const std::optional<std::size_t> axis = node.Axis(node.Int("axis", -1), x.shape.size());
  if (!axis.has_value()) return CostTraffic(node, outputs);
  const SymInt rows = Product(x.shape, 0, *axis) * Product(x.shape, *axis + 1, x.shape.size());
  return VectorNode(KernelDType(x.type), node.rule().kernel, rows, x.shape[*axis], 1);
}

}  // namespace

void AddNormalisationOps(OpTable& table) {
  const OpRule softmax = {.infer = InferSame, .cost = CostSoftmax, .kernel = "softmax"};
  const OpRule layer_norm = {.infer = InferLayerNorm, .cost = CostLayerNorm, .kernel = "layernorm"};
  const OpRule rms_norm = {.infer = InferLayerNorm, .cost = CostLayerNorm, .kernel = "rmsnorm"};
  table.insert({
      {"Hardmax", softmax},
      {"LogSoftmax", softmax},
      {"QLinearSoftmax", softmax},
      {"Softmax", softmax},

      {"LayerNormalization", layer_norm},
      {"RMSNormalization", rms_norm},
      {"SimplifiedLayerNormalization", rms_norm},
      {"EmbedLayerNormalization", {.infer = InferEmbedLayerNorm, .cost = CostEmbedLayerNorm, .min_inputs = 3}},
      {"SkipLayerNormalization",
       {.infer = InferSkipLayerNorm, .cost = CostSkipLayerNorm, .kernel = "layernorm", .min_inputs = 2}},
      {"SkipSimplifiedLayerNormalization",
       {.infer = InferSkipLayerNorm, .cost = CostSkipLayerNorm, .kernel = "rmsnorm", .min_inputs = 2}},

      {"BatchNormalization", {.infer = InferBatchNorm, .cost = CostBatchNorm, .kernel = "batchnorm"}},
      {"GroupNorm", {.infer = InferSame, .cost = CostGroupNorm, .kernel = "groupnorm"}},
      {"GroupNormalization", {.infer = InferSame, .cost = CostGroupNorm, .kernel = "groupnorm"}},
      {"InstanceNormalization", {.infer = InferSame, .cost = CostInstanceNorm, .kernel = "groupnorm"}},
      {"LRN", {.infer = InferSame, .cost = CostBatchNorm, .kernel = "pool"}},
      {"LpNormalization", {.infer = InferSame, .cost = CostAlongAxis, .kernel = "layernorm"}},
      {"MeanVarianceNormalization", {.infer = InferSame, .cost = CostInstanceNorm, .kernel = "layernorm"}},
  });
}

}  // namespace gpueta::onnx_import
