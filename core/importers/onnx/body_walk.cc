#include "core/importers/onnx/body_walk.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/node_order.h"
#include "core/importers/onnx/read_model.h"
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

// Nodes that functions and loops may add to those of the file. A model of 100
// layers, each a function of 300 operators, has 30000.
constexpr std::int64_t kExpansionBudget = std::int64_t{1} << 18;

const OpRule& RuleFor(const onnx::NodeProto& node) {
  const bool known_domain = IsStandardDomain(node.domain()) || node.domain() == "com.microsoft";
  const auto found = KnownOps().find(node.op_type());
  return known_domain && found != KnownOps().end() ? found->second : UnknownOp();
}

// Whether the node runs on the device, or what its outputs are made of.
Origin OriginOf(const NodeView& node, const std::vector<Tensor>& outputs) {
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

bool InputsAssumed(const NodeView& node) {
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (node.has(i) && node.in(i).assumed) return true;
  }
  return false;
}

// Nothing runs for outputs without elements.
std::vector<GraphNode> CostsOf(NodeView& node, const std::vector<Tensor>& outputs) {
  const bool empty = std::all_of(outputs.begin(), outputs.end(), [](const Tensor& output) {
    return std::find(output.shape.begin(), output.shape.end(), SymInt(0)) != output.shape.end();
  });
  if (empty) return {CostView(node, outputs)};
  const OpRule& rule = node.rule();
  if (rule.costs != nullptr) return rule.costs(node, outputs);
  return {rule.cost(node, outputs)};
}

// Of the constants that the node reads, each once.
std::int64_t ParametersOf(const NodeView& node) {
  std::set<const Tensor*> constants;
  Count parameters;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!node.has(i) || node.in(i).origin != Origin::kConstant || !constants.insert(&node.in(i)).second) continue;
    parameters = parameters + Count(node.in(i).parameters);
  }
  return parameters.value();
}

}  // namespace

std::string Place(std::string_view kind, std::string_view name) {
  return fmt::format("{} \"{}\"", kind, Printable(name));
}

bool IsStandardDomain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

const onnx::TypeProto_Tensor* TensorTypeOf(const onnx::TypeProto& type) {
  if (type.has_tensor_type()) return &type.tensor_type();
  if (type.has_optional_type()) return TensorTypeOf(type.optional_type().elem_type());
  return nullptr;
}

const Tensor* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    const auto found = scope->tensors.find(name);
    if (found != scope->tensors.end()) return &found->second;
  }
  return nullptr;
}

bool Scope::IsAbsent(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    if (scope->absent.contains(name)) return true;
  }
  return false;
}

BodyWalk::BodyWalk(const onnx::ModelProto& model, Graph& graph, Notes& notes)
    : model_(model),
      graph_(graph),
      notes_(notes),
      node_budget_(model.graph().node_size() + kExpansionBudget),
      folding_budget_(kFoldingBudget),
      shape_budget_(kShapeBudget) {
  for (const onnx::FunctionProto& function : model_.functions()) {
    functions_.try_emplace(function.domain() + ":" + function.name(), Function{&function, DefaultsOf(function)});
  }
}

absl::Status BodyWalk::AddGraph(const onnx::GraphProto& body, Scope& scope) {
  if (scope.depth > 0) node_budget_ -= CostOf(body);
  GPUETA_RETURN_IF_ERROR(AddInitialisers(body, scope));
  for (const auto* declared : {&body.value_info(), &body.output()}) {
    for (const onnx::ValueInfoProto& value : *declared) scope.declared.emplace(value.name(), &value.type());
  }
  return AddNodes(body.node(), scope);
}

absl::Status BodyWalk::AddInitialisers(const onnx::GraphProto& body, Scope& scope) {
  const bool counted = !counted_.insert(&body).second;
  for (const TensorProto& stored : body.initializer()) {
    GPUETA_RETURN_IF_ERROR(AddInitialiser(stored.name(), ReadTensor(stored), std::nullopt, counted, scope));
  }
  for (const onnx::SparseTensorProto& stored : body.sparse_initializer()) {
    const absl::StatusOr<Tensor> values = ReadTensor(stored.values());
    if (!values.ok()) return Prefixed(values.status(), Place("initialiser", stored.values().name()));
    GPUETA_RETURN_IF_ERROR(
        AddInitialiser(stored.values().name(), ReadSparseTensor(stored), SizeOf(*values), counted, scope));
  }
  return absl::OkStatus();
}

// `size` is what is stored, if that is not all elements; `counted`: in an
// earlier visit of the body.
absl::Status BodyWalk::AddInitialiser(const std::string& name, absl::StatusOr<Tensor> tensor,
                                      std::optional<StoredSize> size, bool counted, Scope& scope) {
  if (!tensor.ok()) return Prefixed(tensor.status(), Place("initialiser", name));
  const StoredSize stored = size.value_or(SizeOf(*tensor));
  tensor->parameters = IsFloat(tensor->type) ? stored.elements : 0;
  if (!counted) {
    const Count parameters = Count(graph_.parameters) + Count(tensor->parameters);
    const Count bytes = Count(graph_.parameter_bytes) + Count(stored.bytes);
    if (parameters.overflowed() || bytes.overflowed()) {
      return InvalidArgument("{}: the initialisers together have more than 2^62 bytes", Place("initialiser", name));
    }
    graph_.parameters = parameters.value();
    graph_.parameter_bytes = bytes.value();
  }
  if (!scope.tensors.emplace(name, *std::move(tensor)).second) {
    return InvalidArgument("{}: there are two of this name", Place("initialiser", name));
  }
  return absl::OkStatus();
}

absl::Status BodyWalk::AddNodes(const Nodes& nodes, Scope& scope) {
  auto order = orders_.find(&nodes);
  if (order == orders_.end()) {
    std::unordered_set<std::string_view> given = scope.absent;
    for (const auto& [name, tensor] : scope.tensors) given.insert(name);
    GPUETA_ASSIGN_OR_RETURN(std::vector<int> ordered, OrderNodes(nodes, given));
    order = orders_.emplace(&nodes, std::move(ordered)).first;
  }
  for (int i : order->second) GPUETA_RETURN_IF_ERROR(AddNode(nodes[i], scope));
  return absl::OkStatus();
}

absl::Status BodyWalk::AddNode(const onnx::NodeProto& source, Scope& scope) {
  if (--node_budget_ < 0) {
    return ResourceExhausted("{}: functions and loops expand to more than {} nodes up to here", Describe(source),
                             kExpansionBudget);
  }
  if (const auto function = functions_.find(source.domain() + ":" + source.op_type()); function != functions_.end()) {
    return CallFunction(function->second, source, scope);
  }
  ++graph_.source_op_counts[Printable(source.op_type())];
  if (source.output_size() == 0) return InvalidArgument("{}: it has no output", Describe(source));
  if (IsStandardDomain(source.domain())) {
    if (source.op_type() == "If") return AddIf(source, scope);
    if (source.op_type() == "Loop") return AddLoop(source, scope);
    if (source.op_type() == "Scan" && scope.opset >= kUnbatchedScanOpset) return AddScan(source, scope);
  }
  return AddOperator(source, scope);
}

absl::StatusOr<const Tensor*> BodyWalk::InputOf(const onnx::NodeProto& node, int input, const Scope& scope) const {
  const std::string& name = node.input(input);
  if (name.empty() || scope.IsAbsent(name)) return nullptr;
  const Tensor* tensor = scope.Find(name);
  if (tensor != nullptr) return tensor;
  return InvalidArgument("{} reads tensor \"{}\", which is no input, no initialiser and no node's output",
                         Describe(node), Printable(name));
}

absl::Status BodyWalk::AddOperator(const onnx::NodeProto& source, Scope& scope) {
  const OpRule& rule = RuleFor(source);
  std::vector<const Tensor*> inputs;
  for (int i = 0; i < source.input_size(); ++i) {
    GPUETA_ASSIGN_OR_RETURN(inputs.emplace_back(), InputOf(source, i, scope));
  }
  NodeView node(source, std::move(inputs), rule,
                {.opset = scope.opset, .call = scope.call, .folding = folding_budget_ > 0});
  for (std::size_t i = 0; i < rule.min_inputs; ++i) {
    if (!node.has(i)) {
      return InvalidArgument("{}: input {} is missing, it needs {}", Describe(source), i, rule.min_inputs);
    }
  }
  std::vector<Inferred> inferred = rule.infer(node);
  GPUETA_RETURN_IF_ERROR(CheckRemembered(node));
  inferred.resize(static_cast<std::size_t>(source.output_size()));
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    outputs.push_back(Resolve(node, i, std::move(inferred[i]), scope));
  }
  GPUETA_RETURN_IF_ERROR(CheckRemembered(node));
  if (shape_budget_ < 0) {
    return ResourceExhausted("{}: the symbolic shapes up to here are too many to follow; fix the inputs' sizes",
                             Describe(source));
  }

  const Origin origin = OriginOf(node, outputs);
  const bool assumed = InputsAssumed(node) || !node.assumptions().empty();
  int producer = -1;
  if (origin == Origin::kData) {
    GPUETA_ASSIGN_OR_RETURN(producer, AddKernels(node, outputs, assumed, scope));
  }
  for (const std::string& assumption : node.assumptions()) Assume(source, assumption);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = source.output(static_cast<int>(i));
    if (name.empty()) continue;
    outputs[i].origin = origin;
    outputs[i].assumed = assumed;
    outputs[i].producer = producer;
    if (origin == Origin::kConstant) outputs[i].parameters = ParametersOf(node);
    scope.tensors.emplace(name, std::move(outputs[i]));
  }
  return absl::OkStatus();
}

// A mismatch is the file's fault, unless it may come from an assumption.
absl::Status BodyWalk::CheckRemembered(NodeView& node) {
  if (!node.malformed().empty()) return InvalidArgument("{}: {}", Describe(node.proto()), node.malformed());
  const std::string mismatch = node.TakeMismatch();
  if (mismatch.empty()) return absl::OkStatus();
  if (!InputsAssumed(node)) return InvalidArgument("{}: {}", Describe(node.proto()), mismatch);
  node.Assume(fmt::format("{}, perhaps because of an earlier assumption", mismatch));
  return absl::OkStatus();
}

// The output as inferred, else as declared, else as assumed.
Tensor BodyWalk::Resolve(NodeView& node, std::size_t output, Inferred inferred, const Scope& scope) {
  const std::string& name = node.proto().output(static_cast<int>(output));
  Tensor tensor;
  if (name.empty()) return tensor;
  const auto found = scope.declared.find(name);
  const onnx::TypeProto_Tensor* declared = found == scope.declared.end() ? nullptr : TensorTypeOf(*found->second);
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
    node.Assume(
        fmt::format("the shape of tensor \"{}\" is unknown; assumed to be {}", Printable(name), ToText(tensor.shape)));
    return tensor;
  }
  for (std::size_t i = 0; i < inferred.dims->size(); ++i) {
    std::optional<SymInt> dim = std::move((*inferred.dims)[i]);
    if (!dim.has_value() && i < declared_rank) dim = DeclaredDim(declared->shape().dim(static_cast<int>(i)));
    if (!dim.has_value()) {
      const bool like_input = node.has(0) && node.in(0).shape.size() == inferred.dims->size();
      dim = like_input ? node.in(0).shape[i] : SymInt(1);
      node.Assume(
          fmt::format("dim {} of tensor \"{}\" is unknown; assumed to be {}", i, Printable(name), dim->ToString()));
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

void BodyWalk::SetContents(std::optional<Contents> contents, Tensor& tensor) {
  if (!contents.has_value() || SmallElementCount(tensor.shape) != static_cast<std::int64_t>(contents->size())) return;
  for (const Number& number : *contents) {
    const auto* value = std::get_if<SymInt>(&number);
    folding_budget_ -= value == nullptr ? 1 : value->size();
  }
  tensor.contents = std::move(contents);
}

// A declared size counts if it is a number or depends on the inputs' symbols
// alone; exporters make up other names for what they do not know.
std::optional<SymInt> BodyWalk::DeclaredDim(const onnx::TensorShapeProto_Dimension& dim) const {
  if (dim.has_dim_value() && dim.dim_value() >= 0) return SymInt(dim.dim_value());
  if (!dim.has_dim_param()) return std::nullopt;
  absl::StatusOr<SymInt> size = SymInt::Parse(dim.dim_param());
  if (!size.ok() || size->overflowed()) return std::nullopt;
  std::set<std::string> used;
  size->CollectSymbols(used);
  if (!std::includes(symbols_.begin(), symbols_.end(), used.begin(), used.end())) return std::nullopt;
  return *std::move(size);
}

absl::StatusOr<int> BodyWalk::AddKernels(NodeView& node, const std::vector<Tensor>& outputs, bool assumed,
                                         const Scope& scope) {
  std::vector<GraphNode> kernels = CostsOf(node, outputs);
  GPUETA_RETURN_IF_ERROR(CheckRemembered(node));
  for (GraphNode& kernel : kernels) {
    const absl::Status problem = ValidateKernel(kernel);
    if (problem.ok()) continue;
    if (!assumed) return Prefixed(problem, Describe(node.proto()));
    node.Assume(fmt::format("costed by memory traffic, since {}", MessageOf(problem)));
    kernel = CostTraffic(node, outputs);
    if (!ValidateKernel(kernel).ok()) kernel = ViewNode(kernel.kernel.dtype, {});
  }
  const onnx::NodeProto& source = node.proto();
  const std::string op_type = Printable(source.op_type());
  std::vector<int> inputs;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (node.has(i) && node.in(i).producer >= 0) inputs.push_back(node.in(i).producer);
  }
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  kernels.front().parameters = ParametersOf(node);
  for (GraphNode& kernel : kernels) {
    kernel.kernel.name = Printable(scope.path + (source.name().empty() ? source.output(0) : source.name()));
    kernel.source_op = op_type;
    kernel.inputs = std::exchange(inputs, {static_cast<int>(graph_.nodes.size())});
    if (kernel.costing == Costing::kTraffic) notes_.CostedByTraffic(op_type, Describe(source));
    graph_.nodes.push_back(std::move(kernel));
  }
  return static_cast<int>(graph_.nodes.size()) - 1;
}

}  // namespace gpueta::onnx_import
