// The walk over the nodes of bodies: the main graph, functions where they are
// called, the branch that an If takes, each iteration of a loop.
#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"
#include "core/importers/onnx/node_view.h"
#include "core/importers/onnx/notes.h"
#include "core/importers/onnx/op_rule.h"
#include "core/importers/onnx/read_tensor.h"

namespace gpueta::onnx_import {

// What names mean in one body. Keys are names in the model, which outlives it.
struct Scope {
  const Scope* outer = nullptr;          // of a subgraph: where names are looked up next
  const CallAttributes* call = nullptr;  // of a function, and of subgraphs in one
  std::int64_t opset = 1;                // of the standard operators
  int depth = 0;                         // bodies around it
  std::string path;                      // before the names of its kernels, "block/"
  std::unordered_map<std::string_view, Tensor> tensors;
  std::unordered_set<std::string_view> absent;  // parameters of a function that its call leaves out
  std::unordered_map<std::string_view, const onnx::TypeProto*> declared;

  // Here or outside; null if there is no tensor of this name.
  const Tensor* Find(std::string_view name) const;
  bool IsAbsent(std::string_view name) const;
};

class BodyWalk {
 public:
  // `model` must outlive the walk. Nodes are appended to `graph`, what was
  // assumed to `notes`.
  BodyWalk(const onnx::ModelProto& model, Graph& graph, Notes& notes);

  // The initialisers, declared shapes and nodes of a graph into `scope`, whose
  // inputs are there. INVALID_ARGUMENT naming node and tensor for a body that
  // contradicts itself; RESOURCE_EXHAUSTED for functions that expand without
  // end, or symbolic shapes without.
  absl::Status AddGraph(const onnx::GraphProto& body, Scope& scope);

  // Symbols of the inputs: a declared dim counts if it depends on these alone.
  std::set<std::string>& symbols() { return symbols_; }

 private:
  struct Function {
    const onnx::FunctionProto* proto;
    std::vector<onnx::AttributeProto> defaults;
  };

  absl::Status AddInitialisers(const onnx::GraphProto& body, Scope& scope);
  absl::Status AddInitialiser(const std::string& name, absl::StatusOr<Tensor> tensor, std::optional<StoredSize> size,
                              bool counted, Scope& scope);
  absl::Status AddNodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, Scope& scope);
  absl::Status AddNode(const onnx::NodeProto& source, Scope& scope);
  absl::Status AddOperator(const onnx::NodeProto& source, Scope& scope);
  absl::Status CheckRemembered(NodeView& node);
  Tensor Resolve(NodeView& node, std::size_t output, Inferred inferred, const Scope& scope);
  void SetContents(std::optional<Contents> contents, Tensor& tensor);
  std::optional<SymInt> DeclaredDim(const onnx::TensorShapeProto_Dimension& dim) const;
  // Appends the node's kernels to the graph; the index of the last.
  absl::StatusOr<int> AddKernels(NodeView& node, const std::vector<Tensor>& outputs, bool assumed, const Scope& scope);

  // control_flow.cc
  absl::Status CallFunction(const Function& called, const onnx::NodeProto& call, Scope& scope);
  absl::Status AddIf(const onnx::NodeProto& node, Scope& scope);
  absl::Status AddLoop(const onnx::NodeProto& node, Scope& scope);
  absl::Status AddScan(const onnx::NodeProto& node, Scope& scope);
  absl::StatusOr<std::vector<Tensor>> AddBranch(const onnx::NodeProto& node, std::string_view attribute, Scope& scope);
  absl::StatusOr<std::vector<Tensor>> AddIteration(const onnx::NodeProto& node, const onnx::GraphProto& body,
                                                   std::vector<Tensor> inputs, std::int64_t iteration, Scope& scope);
  Tensor Stacked(const onnx::NodeProto& node, std::vector<Tensor> parts, std::int64_t axis, const Scope& scope);
  void Define(const std::string& name, Tensor tensor, Scope& scope);
  // What walking a body costs beside its nodes, in nodes.
  static std::int64_t CostOf(const onnx::GraphProto& body);
  bool FitsBudget(std::int64_t trips, const onnx::GraphProto& body) const;
  void Assume(const onnx::NodeProto& node, const std::string& assumption);
  absl::StatusOr<const Tensor*> InputOf(const onnx::NodeProto& node, int input, const Scope& scope) const;
  absl::Status CheckDepth(const onnx::NodeProto& node, const Scope& scope) const;

  const onnx::ModelProto& model_;
  Graph& graph_;
  Notes& notes_;
  std::set<std::string> symbols_;
  std::set<const onnx::GraphProto*> counted_;                 // whose initialisers are in the graph's parameters
  std::unordered_map<std::string, Function> functions_;       // by "domain:name"
  SymbolValues nominal_sizes_;                                // of the inputs' symbols
  std::unordered_map<const void*, std::vector<int>> orders_;  // of bodies' nodes, by their list
  std::int64_t node_budget_;
  std::int64_t folding_budget_;
  std::int64_t shape_budget_;
};

// `node "encoder/MatMul"`-like places of errors: kind and quoted name.
std::string Place(std::string_view kind, std::string_view name);

bool IsStandardDomain(std::string_view domain);

// Null for what is no tensor: sequences, maps.
const onnx::TypeProto_Tensor* TensorTypeOf(const onnx::TypeProto& type);

// From here on Scan has no batch axis of its own.
inline constexpr std::int64_t kUnbatchedScanOpset = 9;

template <class OpsetImports>
std::int64_t OpsetOf(const OpsetImports& imports) {
  std::int64_t opset = 1;
  for (const auto& imported : imports) {
    if (IsStandardDomain(imported.domain())) opset = imported.version();
  }
  return opset;
}

}  // namespace gpueta::onnx_import
