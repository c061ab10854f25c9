// One node of an ONNX graph as the rules of operators see it.
#pragma once

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/importers/onnx/tensor.h"

namespace gpueta::onnx_import {

struct OpRule;

// The attributes of a function call by name: what nodes of the function refer
// to by ref_attr_name.
using CallAttributes = std::unordered_map<std::string_view, const onnx::AttributeProto*>;

// The attribute `name` of a node, that of the call it refers to if it does;
// null if absent. `call` is null outside functions.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name,
                                          const CallAttributes* call);

// Where a node stands.
struct NodeContext {
  std::int64_t opset = 1;  // of the standard operators
  const CallAttributes* call = nullptr;
  bool folding = true;  // else no contents are shown
};

// Reading never fails on the spot: a malformed attribute or shapes that do not
// fit are remembered, a default is returned, and the importer asks afterwards.
class NodeView {
 public:
  // `inputs` has one entry for each input of the node, null for an absent
  // optional one. Everything must outlive the view.
  NodeView(const onnx::NodeProto& node, std::vector<const Tensor*> inputs, const OpRule& rule, NodeContext context)
      : node_(&node), inputs_(std::move(inputs)), rule_(&rule), context_(context) {}

  const onnx::NodeProto& proto() const { return *node_; }
  const OpRule& rule() const { return *rule_; }
  std::int64_t opset() const { return context_.opset; }

  std::size_t input_count() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  // Input i, which must be there: rules say how many inputs they need.
  const Tensor& in(std::size_t i) const { return *inputs_[i]; }
  // Contents of input i; null if it is absent or they are unknown.
  const Contents* contents(std::size_t i) const;
  std::size_t output_count() const { return static_cast<std::size_t>(node_->output_size()); }

  bool HasAttribute(std::string_view name) const { return Find(name) != nullptr; }
  std::int64_t Int(std::string_view name, std::int64_t otherwise);
  double Float(std::string_view name, double otherwise);
  std::string String(std::string_view name, std::string_view otherwise);
  std::vector<std::int64_t> Ints(std::string_view name);
  std::vector<double> Floats(std::string_view name);
  const onnx::TensorProto* StoredTensor(std::string_view name);
  const onnx::SparseTensorProto* SparseTensor(std::string_view name);

  // Input i as integers; nullopt if it is absent or not known at import.
  std::optional<std::vector<SymInt>> IntsAt(std::size_t input);

  // Operators of several versions have moved integers from an attribute to an
  // input. Whether they are given in either way, and what they are; nullopt if
  // they are not known at import.
  bool HasInts(std::string_view attribute, std::size_t input) const;
  std::optional<std::vector<SymInt>> Ints(std::string_view attribute, std::size_t input);
  std::optional<std::vector<std::int64_t>> ConstantInts(std::string_view attribute, std::size_t input);

  // `axis`, counted from the end if negative, as an index below `rank`;
  // Mismatch and nullopt if it is outside.
  std::optional<std::size_t> Axis(std::int64_t axis, std::size_t rank);

  // The file is wrong whatever the shapes are.
  template <class... Args>
  void Malformed(fmt::format_string<Args...> problem, Args&&... args) {
    if (malformed_.empty()) malformed_ = fmt::format(problem, std::forward<Args>(args)...);
  }
  // The shapes of the inputs do not fit the operator.
  template <class... Args>
  void Mismatch(fmt::format_string<Args...> problem, Args&&... args) {
    if (mismatch_.empty()) mismatch_ = fmt::format(problem, std::forward<Args>(args)...);
  }
  // A shape was assumed: `assumption` says which and what.
  void Assume(std::string assumption) { assumptions_.push_back(std::move(assumption)); }

  // What was remembered; empty if nothing was.
  const std::string& malformed() const { return malformed_; }
  std::string TakeMismatch() { return std::exchange(mismatch_, std::string()); }
  const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  const onnx::AttributeProto* Find(std::string_view name) const;

  const onnx::NodeProto* node_;
  std::vector<const Tensor*> inputs_;
  const OpRule* rule_;
  NodeContext context_;
  std::string malformed_;
  std::string mismatch_;
  std::vector<std::string> assumptions_;
};

// `node "encoder/MatMul" (MatMul)`, for messages.
std::string Describe(const onnx::NodeProto& node);

// Text from a file, fit to be shown and to be put into a proto string: control
// characters and bytes outside ASCII become "?", long text is cut.
std::string Printable(std::string_view text);

}  // namespace gpueta::onnx_import
