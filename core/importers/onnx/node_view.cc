#include "core/importers/onnx/node_view.h"

namespace gpueta::onnx_import {
namespace {

// The longest names in real files are below 200 characters.
constexpr std::size_t kMaxPrintable = 256;

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable(text.substr(0, kMaxPrintable));
  for (char& c : printable) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (text.size() > kMaxPrintable) printable += "...";
  return printable;
}

std::string Describe(const onnx::NodeProto& node) {
  const std::string& name = !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
  return fmt::format("node \"{}\" ({})", Printable(name), Printable(node.op_type()));
}

const Contents* NodeView::contents(std::size_t i) const {
  return context_.folding && has(i) && inputs_[i]->contents.has_value() ? &*inputs_[i]->contents : nullptr;
}

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name,
                                          const CallAttributes* call) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    if (call == nullptr) return nullptr;
    const auto given = call->find(attribute.ref_attr_name());
    return given == call->end() ? nullptr : given->second;
  }
  return nullptr;
}

const onnx::AttributeProto* NodeView::Find(std::string_view name) const {
  return FindAttribute(*node_, name, context_.call);
}

std::int64_t NodeView::Int(std::string_view name, std::int64_t otherwise) {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return otherwise;
  if (!attribute->has_i()) Malformed("attribute {} is no integer", name);
  return attribute->i();
}

double NodeView::Float(std::string_view name, double otherwise) {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return otherwise;
  if (!attribute->has_f()) Malformed("attribute {} is no float", name);
  return attribute->f();
}

std::string NodeView::String(std::string_view name, std::string_view otherwise) {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return std::string(otherwise);
  if (!attribute->has_s()) Malformed("attribute {} is no string", name);
  return attribute->s();
}

std::vector<std::int64_t> NodeView::Ints(std::string_view name) {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return {};
  if (attribute->has_i() || attribute->has_f()) Malformed("attribute {} is no list of integers", name);
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<double> NodeView::Floats(std::string_view name) {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return {};
  if (attribute->has_i() || attribute->has_f()) Malformed("attribute {} is no list of floats", name);
  return {attribute->floats().begin(), attribute->floats().end()};
}

const onnx::TensorProto* NodeView::StoredTensor(std::string_view name) {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return nullptr;
  if (!attribute->has_t()) Malformed("attribute {} is no tensor", name);
  return &attribute->t();
}

const onnx::SparseTensorProto* NodeView::SparseTensor(std::string_view name) {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return nullptr;
  if (!attribute->has_sparse_tensor()) Malformed("attribute {} is no sparse tensor", name);
  return &attribute->sparse_tensor();
}

bool NodeView::HasInts(std::string_view attribute, std::size_t input) const {
  return HasAttribute(attribute) || has(input);
}

std::optional<std::vector<SymInt>> NodeView::IntsAt(std::size_t input) {
  const Contents* known = contents(input);
  if (known == nullptr) return std::nullopt;
  std::vector<SymInt> values;
  for (const Number& number : *known) {
    const auto* value = std::get_if<SymInt>(&number);
    if (value == nullptr) {
      Mismatch("input {} is no integer tensor", input);
      return std::nullopt;
    }
    values.push_back(*value);
  }
  return values;
}

std::optional<std::vector<SymInt>> NodeView::Ints(std::string_view attribute, std::size_t input) {
  if (!HasAttribute(attribute)) return IntsAt(input);
  const std::vector<std::int64_t> values = Ints(attribute);
  return std::vector<SymInt>(values.begin(), values.end());
}

std::optional<std::vector<std::int64_t>> NodeView::ConstantInts(std::string_view attribute, std::size_t input) {
  const std::optional<std::vector<SymInt>> values = Ints(attribute, input);
  if (!values.has_value()) return std::nullopt;
  return ConstantDims(*values);
}

std::optional<std::size_t> NodeView::Axis(std::int64_t axis, std::size_t rank) {
  const auto limit = static_cast<std::int64_t>(rank);
  if (axis < -limit || axis >= limit) {
    Mismatch("axis {} is outside a tensor of {} dims", axis, rank);
    return std::nullopt;
  }
  return static_cast<std::size_t>(axis < 0 ? axis + limit : axis);
}

}  // namespace gpueta::onnx_import
