#include "core/importers/onnx/testing_models.h"

#include <fmt/format.h>
#include <onnx/defs/parser.h>

#include <stdexcept>

namespace gpueta::onnx_import {

onnx::ModelProto ModelFromText(std::string_view inputs, std::string_view nodes, int opset) {
  const std::string text =
      fmt::format("<ir_version: 8, opset_import: [\"\": {}, \"com.microsoft\": 1]>\nmodel ({}) => (float[] y) {{ {} }}",
                  opset, inputs, nodes);
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) throw std::invalid_argument(status.ErrorMessage());
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.mutable_output(0)->clear_type();
  const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> declared = graph.input();
  graph.clear_input();
  for (const onnx::ValueInfoProto& input : declared) {
    if (!input.name().starts_with("w")) {
      *graph.add_input() = input;
      continue;
    }
    onnx::TensorProto& stored = *graph.add_initializer();
    stored.set_name(input.name());
    stored.set_data_type(input.type().tensor_type().elem_type());
    for (const auto& dim : input.type().tensor_type().shape().dim()) stored.add_dims(dim.dim_value());
  }
  return model;
}

namespace {

std::string DimText(const GraphNode& node, int dim) {
  for (const GraphNode::SymbolicDim& symbolic : node.symbolic_dims) {
    if (symbolic.dim == dim) return symbolic.value.ToString();
  }
  return fmt::to_string(GetDim(node.kernel, dim));
}

std::string NodeText(const GraphNode& node) {
  std::string text = node.costing == Costing::kFree ? "(free) " : node.costing == Costing::kTraffic ? "(traffic) " : "";
  const Kernel& kernel = node.kernel;
  const auto* vector = std::get_if<Vector>(&kernel.work);
  std::string label = vector != nullptr ? vector->op : LabelOf(kernel);
  if (const auto* attention = std::get_if<Attention>(&kernel.work)) label = Name(attention->phase);
  text += fmt::format("{} {}", Name(kernel.op()), Name(kernel.dtype));
  if (!label.empty()) text += " " + label;
  const DimNames& names = DimNamesOf(kernel.op());
  for (int i = 0; i < names.size; ++i) {
    const std::string value = DimText(node, i);
    const std::optional<std::int64_t> otherwise = DefaultDim(kernel.op(), i);
    if (otherwise.has_value() && value == fmt::to_string(*otherwise)) continue;
    text += fmt::format(" {}={}", names.names[static_cast<std::size_t>(i)], value);
  }
  return text;
}

}  // namespace

std::vector<std::string> NodeTexts(const Graph& graph) {
  std::vector<std::string> texts;
  for (const GraphNode& node : graph.nodes) texts.push_back(NodeText(node));
  return texts;
}

}  // namespace gpueta::onnx_import
