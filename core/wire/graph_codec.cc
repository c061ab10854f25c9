#include "core/wire/graph_codec.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cctype>

#include "core/base/errors.h"
#include "core/wire/kernel_codec.h"
#include "core/wire/text_format.h"

namespace gpueta::wire {
namespace {

v1::Graph::Costing EncodeCosting(Costing costing) {
  switch (costing) {
    case Costing::kKernel: return v1::Graph::COSTING_KERNEL;
    case Costing::kTraffic: return v1::Graph::COSTING_TRAFFIC;
    case Costing::kFree: return v1::Graph::COSTING_FREE;
  }
  return v1::Graph::COSTING_UNSPECIFIED;
}

absl::StatusOr<Costing> DecodeCosting(v1::Graph::Costing costing) {
  switch (costing) {
    case v1::Graph::COSTING_UNSPECIFIED:
    case v1::Graph::COSTING_KERNEL: return Costing::kKernel;
    case v1::Graph::COSTING_TRAFFIC: return Costing::kTraffic;
    case v1::Graph::COSTING_FREE: return Costing::kFree;
    default: break;
  }
  return FieldError("costing", fmt::format("has the unknown value {}; give COSTING_KERNEL, COSTING_TRAFFIC or "
                                           "COSTING_FREE",
                                           static_cast<int>(costing)));
}

v1::Graph::Folded EncodeFolded(Folded folded) {
  switch (folded) {
    case Folded::kNothing: break;
    case Folded::kBias: return v1::Graph::FOLDED_BIAS;
    case Folded::kBatchNorm: return v1::Graph::FOLDED_BATCH_NORM;
  }
  return v1::Graph::FOLDED_UNSPECIFIED;
}

absl::StatusOr<Folded> DecodeFolded(v1::Graph::Folded folded) {
  switch (folded) {
    case v1::Graph::FOLDED_UNSPECIFIED: return Folded::kNothing;
    case v1::Graph::FOLDED_BIAS: return Folded::kBias;
    case v1::Graph::FOLDED_BATCH_NORM: return Folded::kBatchNorm;
    default: break;
  }
  return FieldError("folded", fmt::format("has the unknown value {}; give FOLDED_BIAS or FOLDED_BATCH_NORM",
                                          static_cast<int>(folded)));
}

static_assert(static_cast<int>(DeviceStream::kCompute) + 1 == v1::Graph::STREAM_COMPUTE &&
              static_cast<int>(DeviceStream::kCommunication) + 1 == v1::Graph::STREAM_COMMUNICATION);
static_assert(static_cast<int>(Turn::kForward) + 1 == v1::Graph::TURN_FORWARD &&
              static_cast<int>(Turn::kStep) + 1 == v1::Graph::TURN_STEP);

absl::Status DecodePlace(const v1::Graph::Node& message, GraphNode& node) {
  if (!v1::Graph::Stream_IsValid(message.stream())) return FieldError("stream", "has an unknown value");
  if (!v1::Graph::Turn_IsValid(message.turn())) return FieldError("turn", "has an unknown value");
  node.stream =
      message.stream() == v1::Graph::STREAM_COMMUNICATION ? DeviceStream::kCommunication : DeviceStream::kCompute;
  node.turn = static_cast<Turn>(std::max(static_cast<int>(message.turn()) - 1, 0));
  node.stage = message.stage();
  return absl::OkStatus();
}

void EncodeNode(const GraphNode& node, v1::Graph::Node& message) {
  *message.mutable_kernel() = Encode(node.kernel);
  const DimNames& names = DimNamesOf(node.kernel.op());
  for (const GraphNode::SymbolicDim& dim : node.symbolic_dims) {
    const std::string name(names.names[static_cast<std::size_t>(dim.dim)]);
    (*message.mutable_symbolic_dims())[name] = dim.value.ToString();
  }
  message.mutable_inputs()->Assign(node.inputs.begin(), node.inputs.end());
  message.set_source_op(node.source_op);
  message.set_costing(EncodeCosting(node.costing));
  message.set_parameters(node.parameters);
  message.set_folded(EncodeFolded(node.folded));
  if (node.stream != DeviceStream::kCompute) message.set_stream(v1::Graph::STREAM_COMMUNICATION);
  if (node.turn != Turn::kForward) message.set_turn(static_cast<v1::Graph::Turn>(static_cast<int>(node.turn) + 1));
  message.set_stage(node.stage);
}

absl::StatusOr<v1::Graph> ParseJson(std::string_view text) {
  v1::Graph message;
  const auto status = google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, &message);
  if (!status.ok()) return InvalidArgument("the JSON is no gpueta.v1.Graph: {}", status.message().ToString());
  return message;
}

absl::StatusOr<v1::Graph> ParseText(std::string_view text) {
  v1::Graph message;
  GPUETA_RETURN_IF_ERROR(ParseTextFormat(text, message));
  return message;
}

}  // namespace

v1::Graph Encode(const Graph& graph) {
  v1::Graph message;
  message.set_display_name(graph.display_name);
  for (const Graph::Symbol& symbol : graph.symbols) {
    v1::Graph::Symbol& encoded = *message.add_symbols();
    encoded.set_name(symbol.name);
    encoded.set_default_value(symbol.default_value);
  }
  message.mutable_nodes()->Reserve(static_cast<int>(graph.nodes.size()));
  for (const GraphNode& node : graph.nodes) EncodeNode(node, *message.add_nodes());
  message.set_parameters(graph.parameters);
  message.set_parameter_bytes(graph.parameter_bytes);
  message.mutable_source_op_counts()->insert(graph.source_op_counts.begin(), graph.source_op_counts.end());
  message.mutable_warnings()->Assign(graph.warnings.begin(), graph.warnings.end());
  message.mutable_inputs()->Assign(graph.inputs.begin(), graph.inputs.end());
  message.set_active_parameters(graph.active_parameters);
  message.set_kv_bytes_per_token(graph.kv_bytes_per_token);
  if (graph.microbatches != 1) message.set_microbatches(graph.microbatches);
  message.set_gradient_bytes(graph.gradient_bytes);
  message.set_optimiser_bytes(graph.optimiser_bytes);
  if (graph.input_bytes != SymInt(0)) message.set_input_bytes(graph.input_bytes.ToString());
  return message;
}

absl::StatusOr<GraphNode> DecodeNode(const v1::Graph::Node& message) {
  GraphNode node;
  absl::StatusOr<Kernel> kernel = DecodeUnvalidated(message.kernel());
  if (!kernel.ok()) return InField("kernel", kernel.status());
  node.kernel = *std::move(kernel);
  const Op op = node.kernel.op();
  for (const auto& [name, text] : message.symbolic_dims()) {
    const std::string field = fmt::format("symbolic_dims.{}", name);
    const std::optional<int> dim = FindDim(op, name);
    if (!dim.has_value()) return FieldError(field, fmt::format("{} has no such dim", Name(op)));
    absl::StatusOr<SymInt> value = SymInt::Parse(text);
    if (!value.ok()) return InField(field, value.status());
    // The message says 1 there too, or nothing.
    SetDim(node.kernel, *dim, 1);
    node.symbolic_dims.push_back({*dim, *std::move(value)});
  }
  std::sort(node.symbolic_dims.begin(), node.symbolic_dims.end(),
            [](const auto& a, const auto& b) { return a.dim < b.dim; });
  node.inputs.assign(message.inputs().begin(), message.inputs().end());
  node.source_op = message.source_op();
  GPUETA_ASSIGN_OR_RETURN(node.costing, DecodeCosting(message.costing()));
  node.parameters = message.parameters();
  GPUETA_ASSIGN_OR_RETURN(node.folded, DecodeFolded(message.folded()));
  GPUETA_RETURN_IF_ERROR(DecodePlace(message, node));
  return node;
}

absl::StatusOr<Graph> Decode(const v1::Graph& message) {
  Graph graph;
  graph.display_name = message.display_name();
  for (const v1::Graph::Symbol& symbol : message.symbols()) {
    graph.symbols.push_back({symbol.name(), symbol.default_value()});
  }
  graph.nodes.reserve(static_cast<std::size_t>(message.nodes_size()));
  for (int i = 0; i < message.nodes_size(); ++i) {
    absl::StatusOr<GraphNode> node = DecodeNode(message.nodes(i));
    if (!node.ok()) return InField(fmt::format("nodes[{}]", i), node.status());
    graph.nodes.push_back(*std::move(node));
  }
  if (!message.input_bytes().empty()) {
    absl::StatusOr<SymInt> bytes = SymInt::Parse(message.input_bytes());
    if (!bytes.ok()) return InField("input_bytes", bytes.status());
    graph.input_bytes = *std::move(bytes);
  }
  graph.parameters = message.parameters();
  graph.parameter_bytes = message.parameter_bytes();
  graph.source_op_counts.insert(message.source_op_counts().begin(), message.source_op_counts().end());
  graph.warnings.assign(message.warnings().begin(), message.warnings().end());
  graph.inputs.assign(message.inputs().begin(), message.inputs().end());
  graph.active_parameters = message.active_parameters();
  graph.kv_bytes_per_token = message.kv_bytes_per_token();
  graph.microbatches = message.microbatches() == 0 ? 1 : message.microbatches();
  graph.gradient_bytes = message.gradient_bytes();
  graph.optimiser_bytes = message.optimiser_bytes();
  GPUETA_RETURN_IF_ERROR(Validate(graph));
  return graph;
}

absl::StatusOr<std::string> WriteGraphText(const Graph& graph, GraphFormat format) {
  const v1::Graph message = Encode(graph);
  std::string text;
  if (format == GraphFormat::kText) {
    if (!google::protobuf::TextFormat::PrintToString(message, &text)) return Internal("cannot write the graph as text");
    return text;
  }
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) return Internal("cannot write the graph as JSON: {}", status.message().ToString());
  return text;
}

absl::StatusOr<Graph> ReadGraphText(std::string_view text) {
  const auto first = std::find_if_not(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) != 0; });
  const bool json = first != text.end() && *first == '{';
  GPUETA_ASSIGN_OR_RETURN(const v1::Graph message, json ? ParseJson(text) : ParseText(text));
  return Decode(message);
}

}  // namespace gpueta::wire
