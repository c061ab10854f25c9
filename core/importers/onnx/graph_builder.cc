#include "core/importers/onnx/graph_builder.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/errors.h"
#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/node_order.h"
#include "core/importers/onnx/node_view.h"
#include "core/importers/onnx/notes.h"
#include "core/importers/onnx/op_rule.h"
#include "core/importers/onnx/read_tensor.h"
#include "core/ops/counts.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

// What all folded contents together may cost, in parts of expressions (see
// SymInt::size). A language model of 100 layers needs some hundred thousand.
constexpr std::int64_t kFoldingBudget = std::int64_t{1} << 22;

// And what all symbolic dims together may: a model of 100000 nodes with
// symbolic image sizes needs some millions.
constexpr std::int64_t kShapeBudget = std::int64_t{1} << 22;

bool IsStandardDomain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

std::int64_t OpsetOf(const onnx::ModelProto& model) {
  std::int64_t opset = 1;
  for (const auto& imported : model.opset_import()) {
    if (IsStandardDomain(imported.domain())) opset = imported.version();
  }
  return opset;
}

const OpRule& RuleFor(const onnx::NodeProto& node) {
  const bool known_domain = IsStandardDomain(node.domain()) || node.domain() == "com.microsoft";
  const auto found = KnownOps().find(node.op_type());
  return known_domain && found != KnownOps().end() ? found->second : UnknownOp();
}

// The symbol that an open dim becomes when it has no usable name of its own.
std::string SymbolFrom(std::string_view text) {
  std::string name(text.substr(0, kMaxSymbolLength - 1));
  for (char& c : name) {
    if (!IsSymbolName(std::string{'_', c})) c = '_';
  }
  return IsSymbolName(name) ? name : "_" + name;
}

const onnx::TypeProto_Tensor* TensorTypeOf(const onnx::TypeProto& type) {
  if (type.has_tensor_type()) return &type.tensor_type();
  if (type.has_optional_type()) return TensorTypeOf(type.optional_type().elem_type());
  return nullptr;
}

class GraphBuilder {
 public:
  GraphBuilder(const onnx::ModelProto& model, std::string display_name)
      : model_(model), source_(model.graph()), opset_(OpsetOf(model)) {
    graph_.display_name = std::move(display_name);
  }

  absl::StatusOr<Graph> Build() {
    GPUETA_RETURN_IF_ERROR(CheckSupported());
    GPUETA_ASSIGN_OR_RETURN(const std::vector<int> order, OrderNodes(source_));
    GPUETA_RETURN_IF_ERROR(AddInitialisers());
    for (const onnx::ValueInfoProto& input : source_.input()) GPUETA_RETURN_IF_ERROR(AddInput(input));
    for (const auto* declared : {&source_.value_info(), &source_.output()}) {
      for (const onnx::ValueInfoProto& value : *declared) declared_.emplace(value.name(), &value.type());
    }
    for (int i : order) GPUETA_RETURN_IF_ERROR(AddNode(source_.node(i)));
    graph_.warnings = notes_.Lines();
    GPUETA_RETURN_IF_ERROR(Validate(graph_));
    return std::move(graph_);
  }

 private:
  absl::Status CheckSupported() {
    std::set<std::pair<std::string_view, std::string_view>> functions;
    for (const auto& function : model_.functions()) functions.emplace(function.domain(), function.name());
    for (const onnx::NodeProto& node : source_.node()) {
      const std::string& type = node.op_type();
      if (IsStandardDomain(node.domain()) && (type == "If" || type == "Loop" || type == "Scan")) {
        return absl::UnimplementedError(
            fmt::format("{}: control flow is not supported; export the model without it", Describe(node)));
      }
      if (functions.contains({node.domain(), type})) {
        return absl::UnimplementedError(
            fmt::format("{}: local functions are not supported; inline them first", Describe(node)));
      }
      ++graph_.source_op_counts[Printable(type)];
    }
    return absl::OkStatus();
  }

  absl::Status AddInitialisers() {
    for (const TensorProto& stored : source_.initializer()) {
      GPUETA_RETURN_IF_ERROR(AddInitialiser(stored.name(), ReadTensor(stored), std::nullopt));
    }
    for (const onnx::SparseTensorProto& stored : source_.sparse_initializer()) {
      const absl::StatusOr<Tensor> values = ReadTensor(stored.values());
      if (!values.ok()) return Prefixed(values.status(), Place("initialiser", stored.values().name()));
      GPUETA_RETURN_IF_ERROR(AddInitialiser(stored.values().name(), ReadSparseTensor(stored), SizeOf(*values)));
    }
    return absl::OkStatus();
  }

  // `size` is what is stored, if that is not all elements.
  absl::Status AddInitialiser(const std::string& name, absl::StatusOr<Tensor> tensor, std::optional<StoredSize> size) {
    if (!tensor.ok()) return Prefixed(tensor.status(), Place("initialiser", name));
    const StoredSize stored = size.value_or(SizeOf(*tensor));
    tensor->parameters = IsFloat(tensor->type) ? stored.elements : 0;
    const Count parameters = Count(graph_.parameters) + Count(tensor->parameters);
    const Count bytes = Count(graph_.parameter_bytes) + Count(stored.bytes);
    if (parameters.overflowed() || bytes.overflowed()) {
      return InvalidArgument("{}: the initialisers together have more than 2^62 bytes", Place("initialiser", name));
    }
    graph_.parameters = parameters.value();
    graph_.parameter_bytes = bytes.value();
    if (!tensors_.emplace(name, *std::move(tensor)).second) {
      return InvalidArgument("{}: there are two of this name", Place("initialiser", name));
    }
    return absl::OkStatus();
  }

  absl::Status AddInput(const onnx::ValueInfoProto& input) {
    if (tensors_.contains(input.name())) return absl::OkStatus();  // an initialiser that may be overridden
    const std::string place = Place("input", input.name());
    Tensor tensor;
    const onnx::TypeProto_Tensor* type = TensorTypeOf(input.type());
    if (type == nullptr || !type->has_shape()) {
      notes_.Assumed(place, "its shape is not given; assumed to be a scalar");
      tensor.assumed = true;
    }
    if (type != nullptr) {
      tensor.type = type->elem_type();
      if (static_cast<std::size_t>(type->shape().dim_size()) > kMaxRank) {
        return InvalidArgument("{} has {} dims; at most {} are supported", place, type->shape().dim_size(), kMaxRank);
      }
      for (const auto& dim : type->shape().dim()) {
        GPUETA_ASSIGN_OR_RETURN(SymInt size, InputDim(input.name(), tensor.shape.size(), dim));
        tensor.shape.push_back(std::move(size));
      }
    }
    graph_.inputs.push_back(
        fmt::format("{}: {}{}", Printable(input.name()), TypeName(tensor.type), ToText(tensor.shape)));
    tensors_.emplace(input.name(), std::move(tensor));
    return absl::OkStatus();
  }

  absl::StatusOr<SymInt> InputDim(const std::string& input, std::size_t axis,
                                  const onnx::TensorShapeProto_Dimension& dim) {
    const std::string place = fmt::format("{}, dim {}", Place("input", input), axis);
    if (dim.has_dim_value()) {
      if (dim.dim_value() < 0) {
        return InvalidArgument("{}: is {}; give an open dim a name (dim_param)", place, dim.dim_value());
      }
      return SymInt(dim.dim_value());
    }
    const std::string& param = dim.dim_param();
    absl::StatusOr<SymInt> size = SymInt::Parse(param);
    std::set<std::string> symbols;
    if (size.ok()) size->CollectSymbols(symbols);
    if (!size.ok() || size->overflowed()) {
      const std::string name = SymbolFrom(param.empty() ? fmt::format("{}_dim_{}", input, axis) : param);
      notes_.Assumed(place, fmt::format("is open; the symbol {} stands for it", name));
      size = SymInt::Symbol(name);
      symbols = {name};
    }
    for (const std::string& symbol : symbols) {
      if (symbols_.insert(symbol).second) graph_.symbols.push_back({symbol, 0});
    }
    return *std::move(size);
  }

  absl::Status AddNode(const onnx::NodeProto& source) {
    const OpRule& rule = RuleFor(source);
    std::vector<const Tensor*> inputs;
    for (const std::string& name : source.input()) {
      inputs.push_back(name.empty() ? nullptr : &tensors_.at(name));
    }
    NodeView node(source, std::move(inputs), rule, opset_, folding_budget_ > 0);
    for (std::size_t i = 0; i < rule.min_inputs; ++i) {
      if (!node.has(i)) {
        return InvalidArgument("{}: input {} is missing, it needs {}", Describe(source), i, rule.min_inputs);
      }
    }
    if (source.output_size() == 0) return InvalidArgument("{}: it has no output", Describe(source));

    std::vector<Inferred> inferred = rule.infer(node);
    GPUETA_RETURN_IF_ERROR(CheckRemembered(node));
    inferred.resize(static_cast<std::size_t>(source.output_size()));
    std::vector<Tensor> outputs;
    for (std::size_t i = 0; i < inferred.size(); ++i) outputs.push_back(Resolve(node, i, std::move(inferred[i])));
    GPUETA_RETURN_IF_ERROR(CheckRemembered(node));
    if (shape_budget_ < 0) {
      return ResourceExhausted("{}: the symbolic shapes up to here are too many to follow; fix the inputs' sizes",
                               Describe(source));
    }

    const Origin origin = OriginOf(node, outputs);
    const bool assumed = InputsAssumed(node) || !node.assumptions().empty();
    int producer = -1;
    if (origin == Origin::kData) {
      GPUETA_ASSIGN_OR_RETURN(GraphNode kernel, Cost(node, outputs, assumed));
      producer = static_cast<int>(graph_.nodes.size());
      graph_.nodes.push_back(std::move(kernel));
    }
    for (const std::string& assumption : node.assumptions()) notes_.Assumed(Describe(source), assumption);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = source.output(static_cast<int>(i));
      if (name.empty()) continue;
      outputs[i].origin = origin;
      outputs[i].assumed = assumed;
      outputs[i].producer = producer;
      if (origin == Origin::kConstant) outputs[i].parameters = ParametersOf(node);
      tensors_.emplace(name, std::move(outputs[i]));
    }
    return absl::OkStatus();
  }

  // A mismatch is the file's fault, unless it may come from an assumption.
  absl::Status CheckRemembered(NodeView& node) {
    if (!node.malformed().empty()) return InvalidArgument("{}: {}", Describe(node.proto()), node.malformed());
    const std::string mismatch = node.TakeMismatch();
    if (mismatch.empty()) return absl::OkStatus();
    if (!InputsAssumed(node)) return InvalidArgument("{}: {}", Describe(node.proto()), mismatch);
    node.Assume(fmt::format("{}, perhaps because of an earlier assumption", mismatch));
    return absl::OkStatus();
  }

  static bool InputsAssumed(const NodeView& node) {
    for (std::size_t i = 0; i < node.input_count(); ++i) {
      if (node.has(i) && node.in(i).assumed) return true;
    }
    return false;
  }

  // The output as inferred, else as declared, else as assumed.
  Tensor Resolve(NodeView& node, std::size_t output, Inferred inferred) {
    const std::string& name = node.proto().output(static_cast<int>(output));
    Tensor tensor;
    if (name.empty()) return tensor;
    const auto found = declared_.find(name);
    const onnx::TypeProto_Tensor* declared = found == declared_.end() ? nullptr : TensorTypeOf(*found->second);
    tensor.type = inferred.type;
    if (tensor.type == 0 && declared != nullptr) tensor.type = declared->elem_type();
    if (tensor.type == 0) tensor.type = node.has(0) ? node.in(0).type : ElementType{TensorProto::FLOAT};

    if (inferred.dims.has_value() && inferred.dims->size() > kMaxRank) {
      node.Mismatch("its output has {} dims; at most {} are supported", inferred.dims->size(), kMaxRank);
      inferred.dims.reset();
    }
    const bool has_declared_shape = declared != nullptr && declared->has_shape();
    const auto declared_rank = has_declared_shape ? static_cast<std::size_t>(declared->shape().dim_size()) : 0;
    if (!inferred.dims.has_value() && has_declared_shape && declared_rank <= kMaxRank) {
      inferred.dims = Inferred::Dims(declared_rank);
    }
    if (!inferred.dims.has_value()) {
      if (node.has(0)) tensor.shape = node.in(0).shape;
      node.Assume(fmt::format("the shape of tensor \"{}\" is unknown; assumed to be {}", Printable(name),
                              ToText(tensor.shape)));
      return tensor;
    }
    for (std::size_t i = 0; i < inferred.dims->size(); ++i) {
      std::optional<SymInt> dim = std::move((*inferred.dims)[i]);
      if (!dim.has_value() && i < declared_rank) dim = DeclaredDim(declared->shape().dim(static_cast<int>(i)));
      if (!dim.has_value()) {
        node.Assume(fmt::format("dim {} of tensor \"{}\" is unknown; assumed to be 1", i, Printable(name)));
        dim = 1;
      }
      if (dim->overflowed() || dim->constant().value_or(0) < 0) {
        node.Mismatch("dim {} of tensor \"{}\" would be {}", i, Printable(name), dim->ToString());
        dim = 1;
      }
      shape_budget_ -= dim->size() - 1;
      tensor.shape.push_back(*std::move(dim));
    }
    SetContents(std::move(inferred.contents), tensor);
    return tensor;
  }

  void SetContents(std::optional<Contents> contents, Tensor& tensor) {
    if (!contents.has_value() || SmallElementCount(tensor.shape) != static_cast<std::int64_t>(contents->size())) return;
    for (const Number& number : *contents) {
      const auto* value = std::get_if<SymInt>(&number);
      folding_budget_ -= value == nullptr ? 1 : value->size();
    }
    tensor.contents = std::move(contents);
  }

  // A declared size counts if it is a number or depends on the inputs' symbols
  // alone; exporters make up other names for what they do not know.
  std::optional<SymInt> DeclaredDim(const onnx::TensorShapeProto_Dimension& dim) const {
    if (dim.has_dim_value() && dim.dim_value() >= 0) return SymInt(dim.dim_value());
    if (!dim.has_dim_param()) return std::nullopt;
    absl::StatusOr<SymInt> size = SymInt::Parse(dim.dim_param());
    if (!size.ok() || size->overflowed()) return std::nullopt;
    std::set<std::string> used;
    size->CollectSymbols(used);
    if (!std::includes(symbols_.begin(), symbols_.end(), used.begin(), used.end())) return std::nullopt;
    return *std::move(size);
  }

  // Whether the node runs on the device, or what its outputs are made of.
  static Origin OriginOf(const NodeView& node, const std::vector<Tensor>& outputs) {
    if (node.rule().random) return Origin::kData;
    Origin inputs = Origin::kConstant;
    for (std::size_t i = 0; i < node.input_count(); ++i) {
      if (node.has(i)) inputs = std::max(inputs, node.in(i).origin);
    }
    if (inputs == Origin::kConstant) return Origin::kConstant;
    bool known = true;
    bool constant = true;
    bool small = true;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (node.proto().output(static_cast<int>(i)).empty()) continue;
      small = small && SmallElementCount(outputs[i].shape).has_value();
      known = known && outputs[i].contents.has_value();
      constant = constant && known &&
                 std::all_of(outputs[i].contents->begin(), outputs[i].contents->end(), [](const Number& number) {
                   return std::holds_alternative<double>(number) || ConstantOf(number).has_value();
                 });
    }
    if (known) return constant ? Origin::kConstant : Origin::kShape;
    return inputs == Origin::kShape && small ? Origin::kShape : Origin::kData;
  }

  absl::StatusOr<GraphNode> Cost(NodeView& node, const std::vector<Tensor>& outputs, bool assumed) {
    GraphNode kernel = CostOrView(node, outputs, node.rule().cost);
    GPUETA_RETURN_IF_ERROR(CheckRemembered(node));
    if (const absl::Status problem = ValidateKernel(kernel); !problem.ok()) {
      if (!assumed) return Prefixed(problem, Describe(node.proto()));
      node.Assume(fmt::format("costed by memory traffic, since {}", MessageOf(problem)));
      kernel = CostOrView(node, outputs, CostTraffic);
      if (!ValidateKernel(kernel).ok()) kernel = ViewNode(kernel.kernel.dtype, {});
    }
    const onnx::NodeProto& source = node.proto();
    kernel.kernel.name = Printable(source.name().empty() ? source.output(0) : source.name());
    kernel.source_op = Printable(source.op_type());
    kernel.parameters = ParametersOf(node);
    if (kernel.costing == Costing::kTraffic) notes_.CostedByTraffic(kernel.source_op, Describe(source));
    for (std::size_t i = 0; i < node.input_count(); ++i) {
      if (node.has(i) && node.in(i).producer >= 0) kernel.inputs.push_back(node.in(i).producer);
    }
    std::sort(kernel.inputs.begin(), kernel.inputs.end());
    kernel.inputs.erase(std::unique(kernel.inputs.begin(), kernel.inputs.end()), kernel.inputs.end());
    return kernel;
  }

  // Nothing runs for outputs without elements.
  static GraphNode CostOrView(NodeView& node, const std::vector<Tensor>& outputs, CostFunction cost) {
    const bool empty = std::all_of(outputs.begin(), outputs.end(), [](const Tensor& output) {
      return std::find(output.shape.begin(), output.shape.end(), SymInt(0)) != output.shape.end();
    });
    return empty ? CostView(node, outputs) : cost(node, outputs);
  }

  // Of the constants that the node reads, each once.
  static std::int64_t ParametersOf(const NodeView& node) {
    std::set<const Tensor*> constants;
    Count parameters;
    for (std::size_t i = 0; i < node.input_count(); ++i) {
      if (!node.has(i) || node.in(i).origin != Origin::kConstant || !constants.insert(&node.in(i)).second) continue;
      parameters = parameters + Count(node.in(i).parameters);
    }
    return parameters.value();
  }

  static std::string Place(std::string_view kind, std::string_view name) {
    return fmt::format("{} \"{}\"", kind, Printable(name));
  }

  const onnx::ModelProto& model_;
  const onnx::GraphProto& source_;
  std::int64_t opset_;
  Graph graph_;
  Notes notes_;
  std::set<std::string> symbols_;
  std::unordered_map<std::string_view, Tensor> tensors_;
  std::unordered_map<std::string_view, const onnx::TypeProto*> declared_;
  std::int64_t folding_budget_ = kFoldingBudget;
  std::int64_t shape_budget_ = kShapeBudget;
};

}  // namespace

absl::StatusOr<Graph> BuildGraph(const onnx::ModelProto& model, std::string display_name) {
  return GraphBuilder(model, std::move(display_name)).Build();
}

}  // namespace gpueta::onnx_import
