#include "core/importers/onnx/graph_builder.h"

#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/importers/onnx/body_walk.h"

namespace gpueta::onnx_import {
namespace {

// The symbol that an open dim becomes when it has no usable name of its own.
std::string SymbolFrom(std::string_view text) {
  std::string name(text.substr(0, kMaxSymbolLength - 1));
  for (char& c : name) {
    if (!IsSymbolName(std::string{'_', c})) c = '_';
  }
  return IsSymbolName(name) ? name : "_" + name;
}

class GraphBuilder {
 public:
  GraphBuilder(const onnx::ModelProto& model, std::string display_name)
      : source_(model.graph()), walk_(model, graph_, notes_) {
    graph_.display_name = std::move(display_name);
    scope_.opset = OpsetOf(model.opset_import());
  }

  absl::StatusOr<Graph> Build() {
    std::set<std::string_view> stored;
    for (const auto& tensor : source_.initializer()) stored.insert(tensor.name());
    for (const auto& tensor : source_.sparse_initializer()) stored.insert(tensor.values().name());
    for (const onnx::ValueInfoProto& input : source_.input()) {
      // An initialiser may be an input as well, to be overridden.
      if (!stored.contains(input.name())) GPUETA_RETURN_IF_ERROR(AddInput(input));
    }
    GPUETA_RETURN_IF_ERROR(walk_.AddGraph(source_, scope_));
    graph_.warnings = notes_.Lines();
    GPUETA_RETURN_IF_ERROR(Validate(graph_));
    return std::move(graph_);
  }

 private:
  absl::Status AddInput(const onnx::ValueInfoProto& input) {
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
    const SymInt elements = ElementsOf(tensor.shape);
    graph_.input_bytes = graph_.input_bytes + CeilDiv(elements * BitsOf(tensor.type), 8);
    scope_.tensors.emplace(input.name(), std::move(tensor));
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
      if (walk_.symbols().insert(symbol).second) graph_.symbols.push_back({symbol, 0});
    }
    return *std::move(size);
  }

  const onnx::GraphProto& source_;
  Graph graph_;
  Notes notes_;
  BodyWalk walk_;
  Scope scope_;
};

}  // namespace

absl::StatusOr<Graph> BuildGraph(const onnx::ModelProto& model, std::string display_name) {
  return GraphBuilder(model, std::move(display_name)).Build();
}

}  // namespace gpueta::onnx_import
