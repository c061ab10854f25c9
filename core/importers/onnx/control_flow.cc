// Functions are walked where they are called; of an If the branch that runs;
// loops of a known number of iterations are unrolled.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/errors.h"
#include "core/importers/onnx/body_walk.h"
#include "core/importers/onnx/cost.h"
#include "core/ops/counts.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

// Deeper than any exporter nests; the walk recurses as deep.
constexpr int kMaxBodyDepth = 24;

// Beyond this a trip count is a bound, not a number of iterations.
constexpr std::int64_t kMostTrips = 1 << 16;

// Sizes that two branches of open dims are compared at.
constexpr std::int64_t kNominalSize = 64;
// FLOPs that take as long as a byte: between the ridge points of fp32 units and
// of tensor cores.
constexpr double kFlopsPerByte = 50;

std::string PathOf(const onnx::NodeProto& node, const Scope& scope) {
  return scope.path + Printable(!node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0)) + "/";
}

const onnx::GraphProto* BodyOf(const onnx::NodeProto& node, std::string_view attribute, const Scope& scope) {
  const onnx::AttributeProto* found = FindAttribute(node, attribute, scope.call);
  return found != nullptr && found->has_g() ? &found->g() : nullptr;
}

absl::Status MissingBody(const onnx::NodeProto& node, std::string_view attribute) {
  return InvalidArgument("{}: attribute {} is no graph", Describe(node), attribute);
}

Scope InnerScope(const Scope& outer, std::string path) {
  Scope scope;
  scope.outer = &outer;
  scope.call = outer.call;
  scope.opset = outer.opset;
  scope.depth = outer.depth + 1;
  scope.path = std::move(path);
  return scope;
}

std::optional<std::int64_t> ConstantAt(const Tensor* tensor) {
  if (tensor == nullptr || !tensor->contents.has_value() || tensor->contents->size() != 1) return std::nullopt;
  return ConstantOf(tensor->contents->front());
}

Tensor KnownScalar(ElementType type, const SymInt& value) {
  Tensor tensor;
  tensor.type = type;
  tensor.contents = Contents{value};
  tensor.origin = Origin::kConstant;
  return tensor;
}

// What the kernels of nodes [begin, end) would take on some device, at nominal
// sizes: to tell the heavier of two branches.
double WeightOf(const Graph& graph, const SymbolValues& values, std::size_t begin, std::size_t end) {
  double weight = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.costing == Costing::kFree) continue;
    Kernel kernel = node.kernel;
    for (const GraphNode::SymbolicDim& dim : node.symbolic_dims) {
      SetDim(kernel, dim.dim, dim.value.Evaluate(values).value_or(1));
    }
    Counts counts;
    if (!Validate(kernel, counts).ok()) continue;
    weight += static_cast<double>(counts.bytes_read.value()) + static_cast<double>(counts.bytes_written.value()) +
              static_cast<double>(counts.flops.value()) / kFlopsPerByte;
  }
  return weight;
}

// Takes nodes [begin, end) out of the graph; no other node may depend on them.
void EraseNodes(Graph& graph, std::size_t begin, std::size_t end) {
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                    graph.nodes.begin() + static_cast<std::ptrdiff_t>(end));
  const auto shift = static_cast<int>(end - begin);
  for (std::size_t i = begin; i < graph.nodes.size(); ++i) {
    for (int& input : graph.nodes[i].inputs) {
      if (input >= static_cast<int>(end)) input -= shift;
    }
  }
}

// Adds what an iteration yielded to that of the ones before, without contents
// if together they are too many to follow.
void Yield(Tensor part, std::vector<Tensor>& parts) {
  const std::size_t count = parts.size() + 1;
  if (part.contents.has_value() && part.contents->size() * count > kMaxContents) part.contents.reset();
  parts.push_back(std::move(part));
}

}  // namespace

void BodyWalk::Assume(const onnx::NodeProto& node, const std::string& assumption) {
  notes_.Assumed(Describe(node), assumption);
}

// A tensor of an inner body under a name of this one. Its contents are a copy,
// and so are paid for.
void BodyWalk::Define(const std::string& name, Tensor tensor, Scope& scope) {
  std::optional<Contents> contents = std::exchange(tensor.contents, std::nullopt);
  if (folding_budget_ > 0) SetContents(std::move(contents), tensor);
  scope.tensors.emplace(name, std::move(tensor));
}

absl::Status BodyWalk::CheckDepth(const onnx::NodeProto& node, const Scope& scope) const {
  if (scope.depth < kMaxBodyDepth) return absl::OkStatus();
  return InvalidArgument("{}: functions and subgraphs are nested more than {} deep, or call themselves", Describe(node),
                         kMaxBodyDepth);
}

absl::Status BodyWalk::CallFunction(const Function& called, const onnx::NodeProto& call, Scope& scope) {
  const onnx::FunctionProto& function = *called.proto;
  GPUETA_RETURN_IF_ERROR(CheckDepth(call, scope));
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size()) {
    return InvalidArgument("{}: the function has {} inputs and {} outputs, the call {} and {}", Describe(call),
                           function.input_size(), function.output_size(), call.input_size(), call.output_size());
  }
  node_budget_ -= function.input_size();
  CallAttributes attributes;
  for (const onnx::AttributeProto& otherwise : called.defaults) attributes.emplace(otherwise.name(), &otherwise);
  for (const onnx::AttributeProto& given : call.attribute()) {
    const onnx::AttributeProto* value = FindAttribute(call, given.name(), scope.call);
    if (value != nullptr) attributes[given.name()] = value;
  }
  Scope inner;
  inner.call = &attributes;
  inner.opset = function.opset_import_size() > 0 ? OpsetOf(function.opset_import()) : scope.opset;
  inner.depth = scope.depth + 1;
  inner.path = PathOf(call, scope);
  for (int i = 0; i < function.input_size(); ++i) {
    const Tensor* tensor = nullptr;
    if (i < call.input_size()) {
      GPUETA_ASSIGN_OR_RETURN(tensor, InputOf(call, i, scope));
    }
    if (tensor == nullptr) {
      inner.absent.insert(function.input(i));
    } else if (!inner.tensors.emplace(function.input(i), *tensor).second) {
      return InvalidArgument("{}: the function has two inputs \"{}\"", Describe(call), Printable(function.input(i)));
    }
  }
  GPUETA_RETURN_IF_ERROR(AddNodes(function.node(), inner));
  for (int i = 0; i < call.output_size(); ++i) {
    if (call.output(i).empty()) continue;
    const Tensor* tensor = inner.Find(function.output(i));
    if (tensor == nullptr) {
      return InvalidArgument("{}: the function does not produce its output \"{}\"", Describe(call),
                             Printable(function.output(i)));
    }
    Define(call.output(i), *tensor, scope);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> BodyWalk::AddBranch(const onnx::NodeProto& node, std::string_view attribute,
                                                        Scope& scope) {
  const onnx::GraphProto* body = BodyOf(node, attribute, scope);
  if (body == nullptr) return MissingBody(node, attribute);
  Scope inner = InnerScope(scope, PathOf(node, scope));
  GPUETA_RETURN_IF_ERROR(AddGraph(*body, inner));
  if (body->output_size() < node.output_size()) {
    return InvalidArgument("{}: its {} has {} outputs, it has {}", Describe(node), attribute, body->output_size(),
                           node.output_size());
  }
  std::vector<Tensor> outputs;
  for (int i = 0; i < node.output_size(); ++i) {
    const Tensor* tensor = inner.Find(body->output(i).name());
    if (tensor == nullptr) {
      return InvalidArgument("{}: its {} does not produce \"{}\"", Describe(node), attribute,
                             Printable(body->output(i).name()));
    }
    outputs.push_back(*tensor);
  }
  return outputs;
}

absl::Status BodyWalk::AddIf(const onnx::NodeProto& node, Scope& scope) {
  GPUETA_RETURN_IF_ERROR(CheckDepth(node, scope));
  if (node.input_size() != 1)
    return InvalidArgument("{}: it has {} inputs, needs 1", Describe(node), node.input_size());
  GPUETA_ASSIGN_OR_RETURN(const Tensor* condition, InputOf(node, 0, scope));
  std::vector<Tensor> outputs;
  if (const std::optional<std::int64_t> known = ConstantAt(condition); known.has_value()) {
    GPUETA_ASSIGN_OR_RETURN(outputs, AddBranch(node, *known != 0 ? "then_branch" : "else_branch", scope));
  } else {
    const std::size_t begin = graph_.nodes.size();
    GPUETA_ASSIGN_OR_RETURN(outputs, AddBranch(node, "then_branch", scope));
    const std::size_t middle = graph_.nodes.size();
    GPUETA_ASSIGN_OR_RETURN(std::vector<Tensor> others, AddBranch(node, "else_branch", scope));
    const std::size_t end = graph_.nodes.size();
    if (nominal_sizes_.empty()) {
      for (const Graph::Symbol& symbol : graph_.symbols) nominal_sizes_[symbol.name] = kNominalSize;
    }
    const bool takes_else =
        WeightOf(graph_, nominal_sizes_, middle, end) > WeightOf(graph_, nominal_sizes_, begin, middle);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const bool differ = outputs[i].shape != others[i].shape || outputs[i].type != others[i].type;
      if (takes_else) outputs[i] = std::move(others[i]);
      outputs[i].assumed = outputs[i].assumed || differ;
      outputs[i].contents.reset();
      outputs[i].origin = Origin::kData;
    }
    if (takes_else) {
      EraseNodes(graph_, begin, middle);
      for (Tensor& output : outputs) {
        if (output.producer >= static_cast<int>(middle)) output.producer -= static_cast<int>(middle - begin);
      }
    } else {
      EraseNodes(graph_, middle, end);
    }
    Assume(node, fmt::format("its condition is not known at import; costed as its {}, which does more",
                             takes_else ? "else_branch" : "then_branch"));
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) Define(node.output(i), std::move(outputs[static_cast<std::size_t>(i)]), scope);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> BodyWalk::AddIteration(const onnx::NodeProto& node, const onnx::GraphProto& body,
                                                           std::vector<Tensor> inputs, std::int64_t iteration,
                                                           Scope& scope) {
  // Also of bodies without nodes.
  if (--node_budget_ < 0) return ResourceExhausted("{}: loops have too many iterations up to here", Describe(node));
  Scope inner = InnerScope(scope, fmt::format("{}{}/", PathOf(node, scope), iteration));
  for (int i = 0; i < body.input_size(); ++i) {
    inner.tensors.emplace(body.input(i).name(), std::move(inputs[static_cast<std::size_t>(i)]));
  }
  GPUETA_RETURN_IF_ERROR(AddGraph(body, inner));
  std::vector<Tensor> outputs;
  for (const onnx::ValueInfoProto& output : body.output()) {
    const Tensor* tensor = inner.Find(output.name());
    if (tensor == nullptr) {
      return InvalidArgument("{}: its body does not produce \"{}\"", Describe(node), Printable(output.name()));
    }
    outputs.push_back(*tensor);
  }
  return outputs;
}

std::int64_t BodyWalk::CostOf(const onnx::GraphProto& body) {
  return std::int64_t{body.input_size()} + body.output_size() + body.value_info_size() + body.initializer_size() +
         body.sparse_initializer_size();
}

bool BodyWalk::FitsBudget(std::int64_t trips, const onnx::GraphProto& body) const {
  return trips <= kMostTrips && trips * (CostOf(body) + body.node_size() + 1) < node_budget_ / 2;
}

// One tensor of what iterations yielded, along a new axis; written by a copy.
Tensor BodyWalk::Stacked(const onnx::NodeProto& node, std::vector<Tensor> parts, std::int64_t axis,
                         const Scope& scope) {
  Tensor stacked = parts.front();
  const auto rank = static_cast<std::int64_t>(stacked.shape.size());
  const std::int64_t at = std::clamp<std::int64_t>(axis < 0 ? axis + rank + 1 : axis, 0, rank);
  stacked.shape.insert(stacked.shape.begin() + at, static_cast<std::int64_t>(parts.size()));
  std::optional<Contents> contents = Contents();
  std::vector<int> producers;
  for (const Tensor& part : parts) {
    stacked.origin = std::max(stacked.origin, part.origin);
    stacked.assumed = stacked.assumed || part.assumed;
    if (part.producer >= 0) producers.push_back(part.producer);
    if (!part.contents.has_value()) contents.reset();
    if (contents.has_value()) contents->insert(contents->end(), part.contents->begin(), part.contents->end());
  }
  stacked.contents.reset();
  if (at == 0 && contents.has_value() && SmallElementCount(stacked.shape).has_value()) {
    stacked.contents = std::move(contents);
  }
  if (stacked.origin != Origin::kData || stacked.shape.size() > kMaxRank) return stacked;
  const DType dtype = KernelDType(stacked.type);
  GraphNode copy = parts.size() == 1 ? ViewNode(dtype, stacked.shape) : VectorNode(dtype, "copy", stacked.shape, 1);
  if (!ValidateKernel(copy).ok()) copy = ViewNode(dtype, {});
  copy.kernel.name = PathOf(node, scope) + "stack";
  copy.source_op = Printable(node.op_type());
  std::sort(producers.begin(), producers.end());
  producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
  copy.inputs = std::move(producers);
  stacked.producer = static_cast<int>(graph_.nodes.size());
  graph_.nodes.push_back(std::move(copy));
  return stacked;
}

// Inputs: trip count, condition, carried values. The body takes the iteration's
// number, the condition and the carried values; it gives the condition, the
// carried values, and what each iteration yields.
absl::Status BodyWalk::AddLoop(const onnx::NodeProto& node, Scope& scope) {
  GPUETA_RETURN_IF_ERROR(CheckDepth(node, scope));
  const onnx::GraphProto* body = BodyOf(node, "body", scope);
  if (body == nullptr) return MissingBody(node, "body");
  const int carried = node.input_size() - 2;
  if (carried < 0 || body->input_size() != carried + 2 || body->output_size() < carried + 1 ||
      node.output_size() > body->output_size() - 1) {
    return InvalidArgument("{}: {} inputs and {} outputs do not fit a body of {} inputs and {} outputs", Describe(node),
                           node.input_size(), node.output_size(), body->input_size(), body->output_size());
  }
  GPUETA_ASSIGN_OR_RETURN(const Tensor* limit, InputOf(node, 0, scope));
  GPUETA_ASSIGN_OR_RETURN(const Tensor* condition, InputOf(node, 1, scope));
  std::vector<Tensor> values;
  for (int i = 0; i < carried; ++i) {
    GPUETA_ASSIGN_OR_RETURN(const Tensor* value, InputOf(node, i + 2, scope));
    if (value == nullptr) return InvalidArgument("{}: input {} is missing", Describe(node), i + 2);
    values.push_back(*value);
  }
  constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
  std::int64_t trips = limit == nullptr ? kEndless : ConstantAt(limit).value_or(-1);
  bool assumed = false;
  if (limit != nullptr && !ConstantAt(limit).has_value()) {
    Assume(node, "how often it runs is not known at import; assumed to be once");
    trips = 1;
    assumed = true;
  }
  if (condition != nullptr && ConstantAt(condition) == 0) trips = 0;

  std::vector<std::vector<Tensor>> yielded(static_cast<std::size_t>(body->output_size() - 1 - carried));
  for (std::int64_t i = 0; i < trips; ++i) {
    std::vector<Tensor> inputs = {KnownScalar(TensorProto::INT64, i), KnownScalar(TensorProto::BOOL, 1)};
    inputs.insert(inputs.end(), values.begin(), values.end());
    GPUETA_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, AddIteration(node, *body, std::move(inputs), i, scope));
    for (int j = 0; j < carried; ++j) {
      values[static_cast<std::size_t>(j)] = std::move(outputs[static_cast<std::size_t>(j + 1)]);
    }
    for (std::size_t j = 0; j < yielded.size(); ++j) {
      Yield(std::move(outputs[static_cast<std::size_t>(carried + 1) + j]), yielded[j]);
    }
    const std::optional<std::int64_t> goes_on = ConstantAt(&outputs[0]);
    if (goes_on == 0) break;
    if (i > 0 || trips == 1) continue;
    // What the first iteration tells: whether and how often there are others.
    if (!goes_on.has_value() && trips > kMostTrips) {
      Assume(node, "it runs until a computed condition holds; assumed to be once");
      assumed = true;
      break;
    }
    if (!goes_on.has_value()) Assume(node, fmt::format("it may end early; assumed to run all {} times", trips));
    if (trips != kEndless && !FitsBudget(trips, *body)) {
      Assume(node, fmt::format("its {} iterations are too many to follow; costed as one", trips));
      assumed = true;
      break;
    }
  }
  std::vector<Tensor> results = std::move(values);
  for (std::size_t j = 0; j < yielded.size(); ++j) {
    if (!yielded[j].empty()) {
      results.push_back(Stacked(node, std::move(yielded[j]), 0, scope));
      continue;
    }
    Tensor& nothing = results.emplace_back();
    nothing.shape = {0};
    nothing.assumed = true;
    const auto& declared = body->output(carried + 1 + static_cast<int>(j)).type();
    if (const auto* type = TensorTypeOf(declared); type != nullptr) {
      nothing.type = type->elem_type();
      for (int k = 0; k < type->shape().dim_size() && nothing.shape.size() < kMaxRank; ++k) {
        nothing.shape.push_back(DeclaredDim(type->shape().dim(k)).value_or(1));
      }
    }
  }
  for (int i = 0; i < node.output_size(); ++i) {
    Tensor& result = results[static_cast<std::size_t>(i)];
    result.assumed = result.assumed || assumed;
    if (assumed) result.contents.reset();
    if (!node.output(i).empty()) Define(node.output(i), std::move(result), scope);
  }
  return absl::OkStatus();
}

// Inputs: state, then tensors that are cut along an axis, an iteration a slice.
// The body takes state and slices; it gives state and what is stacked.
absl::Status BodyWalk::AddScan(const onnx::NodeProto& node, Scope& scope) {
  GPUETA_RETURN_IF_ERROR(CheckDepth(node, scope));
  const onnx::GraphProto* body = BodyOf(node, "body", scope);
  if (body == nullptr) return MissingBody(node, "body");
  NodeView view(node, {}, UnknownOp(), {.opset = scope.opset, .call = scope.call});
  const std::int64_t scanned = view.Int("num_scan_inputs", 0);
  const std::vector<std::int64_t> input_axes = view.Ints("scan_input_axes");
  const std::vector<std::int64_t> output_axes = view.Ints("scan_output_axes");
  if (!view.malformed().empty()) return InvalidArgument("{}: {}", Describe(node), view.malformed());
  if (scanned < 1 || scanned > node.input_size() || body->input_size() != node.input_size() ||
      body->output_size() < node.input_size() - scanned || node.output_size() > body->output_size()) {
    return InvalidArgument("{}: num_scan_inputs {} and {} inputs do not fit a body of {} inputs and {} outputs",
                           Describe(node), scanned, node.input_size(), body->input_size(), body->output_size());
  }
  const auto states = static_cast<std::size_t>(node.input_size() - scanned);
  std::vector<Tensor> inputs;
  SymInt length = 0;
  for (int i = 0; i < node.input_size(); ++i) {
    GPUETA_ASSIGN_OR_RETURN(const Tensor* input, InputOf(node, i, scope));
    if (input == nullptr) return InvalidArgument("{}: input {} is missing", Describe(node), i);
    Tensor& tensor = inputs.emplace_back(*input);
    const std::size_t which = inputs.size() - 1;
    if (which < states) continue;
    const std::int64_t given = which - states < input_axes.size() ? input_axes[which - states] : 0;
    const auto rank = static_cast<std::int64_t>(tensor.shape.size());
    if (given < -rank || given >= rank) {
      return InvalidArgument("{}: axis {} is outside input {} of {} dims", Describe(node), given, i, rank);
    }
    const auto at = tensor.shape.begin() + (given < 0 ? given + rank : given);
    if (which == states || !length.constant().has_value()) length = *at;
    tensor.shape.erase(at);
    tensor.contents.reset();
  }
  std::int64_t trips = length.constant().value_or(1);
  bool assumed = false;
  if (!length.constant().has_value()) {
    Assume(node, fmt::format("it runs {} times, which is not known at import; assumed to be once", length.ToString()));
    assumed = true;
  } else if (!FitsBudget(trips, *body)) {
    Assume(node, fmt::format("its {} iterations are too many to follow; costed as one", trips));
    trips = 1;
    assumed = true;
  }
  trips = std::max<std::int64_t>(trips, 1);
  std::vector<std::vector<Tensor>> yielded(static_cast<std::size_t>(body->output_size()) - states);
  for (std::int64_t i = 0; i < trips; ++i) {
    GPUETA_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, AddIteration(node, *body, inputs, i, scope));
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      if (j < states) {
        inputs[j] = std::move(outputs[j]);
      } else {
        Yield(std::move(outputs[j]), yielded[j - states]);
      }
    }
  }
  for (int i = 0; i < node.output_size(); ++i) {
    const auto which = static_cast<std::size_t>(i);
    Tensor result;
    if (which < states) {
      result = inputs[which];
    } else {
      const std::int64_t axis = which - states < output_axes.size() ? output_axes[which - states] : 0;
      result = Stacked(node, std::move(yielded[which - states]), axis, scope);
    }
    result.assumed = result.assumed || assumed;
    if (assumed) result.contents.reset();
    if (!node.output(i).empty()) Define(node.output(i), std::move(result), scope);
  }
  return absl::OkStatus();
}

}  // namespace gpueta::onnx_import
