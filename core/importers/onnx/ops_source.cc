// Operators that make tensors out of nothing, or out of shapes.
#include <algorithm>

#include "core/importers/onnx/cost.h"
#include "core/importers/onnx/ops.h"
#include "core/importers/onnx/read_tensor.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

Inferred AsInferred(Tensor tensor) {
  Inferred result = Known(tensor.type, tensor.shape);
  result.contents = std::move(tensor.contents);
  return result;
}

// Vectors of numbers in attributes.
template <class T>
Inferred Listed(ElementType type, const std::vector<T>& values) {
  Inferred result = Known(type, {static_cast<std::int64_t>(values.size())});
  if (static_cast<std::int64_t>(values.size()) > kMaxContents) return result;
  result.contents = Contents();
  for (const T& value : values) result.contents->push_back(value);
  return result;
}

std::vector<Inferred> InferConstant(NodeView& node) {
  absl::StatusOr<Tensor> stored = absl::InvalidArgumentError("has no value");
  if (const TensorProto* tensor = node.StoredTensor("value"); tensor != nullptr) stored = ReadTensor(*tensor);
  if (const auto* sparse = node.SparseTensor("sparse_value"); sparse != nullptr) stored = ReadSparseTensor(*sparse);
  if (stored.ok()) return {AsInferred(*std::move(stored))};
  if (node.HasAttribute("value_int")) {
    Inferred result = Known(TensorProto::INT64, {});
    result.contents = {SymInt(node.Int("value_int", 0))};
    return {std::move(result)};
  }
  if (node.HasAttribute("value_float")) {
    Inferred result = Known(TensorProto::FLOAT, {});
    result.contents = {node.Float("value_float", 0)};
    return {std::move(result)};
  }
  if (node.HasAttribute("value_ints")) {
    const std::vector<std::int64_t> values = node.Ints("value_ints");
    return {Listed(TensorProto::INT64, std::vector<SymInt>(values.begin(), values.end()))};
  }
  if (node.HasAttribute("value_floats")) return {Listed(TensorProto::FLOAT, node.Floats("value_floats"))};
  if (node.HasAttribute("value_string")) return {Known(TensorProto::STRING, {})};
  if (node.HasAttribute("value_strings")) {
    return {{TensorProto::STRING, Inferred::Dims(1), std::nullopt}};
  }
  node.Malformed("its value {}", std::string_view(stored.status().message().data(), stored.status().message().size()));
  return {};
}

std::vector<Inferred> InferShape(NodeView& node) {
  const Shape& shape = node.in(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto clamped = [rank](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t begin = clamped(node.Int("start", 0));
  const std::int64_t end = std::max(begin, clamped(node.Int("end", rank)));
  return {Listed(TensorProto::INT64, Shape(shape.begin() + begin, shape.begin() + end))};
}

std::vector<Inferred> InferSize(NodeView& node) {
  Inferred result = Known(TensorProto::INT64, {});
  result.contents = {ElementsOf(node.in(0).shape)};
  return {std::move(result)};
}

std::vector<Inferred> InferConstantOfShape(NodeView& node) {
  Tensor value;
  value.type = TensorProto::FLOAT;
  value.contents = {0.0};
  if (const TensorProto* stored = node.StoredTensor("value"); stored != nullptr) {
    absl::StatusOr<Tensor> read = ReadTensor(*stored);
    if (!read.ok()) node.Malformed("its value is no tensor");
    if (read.ok()) value = *std::move(read);
  }
  const std::optional<std::vector<SymInt>> shape = node.IntsAt(0);
  if (!shape.has_value()) return {{value.type, std::nullopt, std::nullopt}};
  Inferred result = Known(value.type, *shape);
  const std::optional<std::int64_t> count = SmallElementCount(*shape);
  if (count.has_value() && value.contents.has_value() && value.contents->size() == 1) {
    result.contents = Contents(static_cast<std::size_t>(*count), value.contents->front());
  }
  return {std::move(result)};
}

// Element i of a range: start + i·delta.
std::optional<Contents> FoldRange(const SymInt& start, const SymInt& delta, const SymInt& length) {
  if (!length.constant().has_value() || *length.constant() > kMaxContents) return std::nullopt;
  Contents contents;
  for (std::int64_t i = 0; i < *length.constant(); ++i) contents.emplace_back(start + delta * i);
  return contents;
}

std::vector<Inferred> InferRange(NodeView& node) {
  const ElementType type = node.in(0).type;
  SymInt bounds[3];  // start, limit, delta
  for (std::size_t i = 0; i < 3; ++i) {
    std::optional<Number> bound;
    if (node.contents(i) != nullptr && node.contents(i)->size() == 1) {
      bound = FoldCast(node.contents(i)->front(), TensorProto::INT64);
    }
    if (!bound.has_value()) return {{type, Inferred::Dims(1), std::nullopt}};
    bounds[i] = std::get<SymInt>(*bound);
  }
  const auto& [start, limit, delta] = bounds;
  if (delta == 0) {
    node.Mismatch("its delta is 0");
    return {};
  }
  const SymInt length = Max(CeilDiv(limit - start, delta), 0);
  Inferred result = Known(type, {length});
  if (IsInteger(type)) result.contents = FoldRange(start, delta, length);
  return {std::move(result)};
}

std::vector<Inferred> InferRandom(NodeView& node) {
  const auto type = static_cast<ElementType>(node.Int("dtype", TensorProto::FLOAT));
  const std::vector<std::int64_t> shape = node.Ints("shape");
  return {Known(type, Shape(shape.begin(), shape.end()))};
}

// The shape of input 0, the type of attribute dtype.
std::vector<Inferred> InferLike(NodeView& node) {
  const Tensor& x = node.in(0);
  return {Known(static_cast<ElementType>(node.Int("dtype", x.type)), x.shape)};
}

}  // namespace

void AddSourceOps(OpTable& table) {
  table.insert({
      {"Constant", {.infer = InferConstant, .cost = CostCopy, .min_inputs = 0}},
      {"ConstantOfShape", {.infer = InferConstantOfShape, .cost = CostCopy}},
      {"EyeLike", {.infer = InferLike, .cost = CostCopy}},
      {"Range", {.infer = InferRange, .cost = CostCopy, .min_inputs = 3}},
      {"Shape", {.infer = InferShape, .cost = CostCopy}},
      {"Size", {.infer = InferSize, .cost = CostCopy}},
      {"Bernoulli", {.infer = InferLike, .cost = CostCopy, .random = true}},
      {"RandomNormal", {.infer = InferRandom, .cost = CostCopy, .min_inputs = 0, .random = true}},
      {"RandomNormalLike", {.infer = InferLike, .cost = CostCopy, .random = true}},
      {"RandomUniform", {.infer = InferRandom, .cost = CostCopy, .min_inputs = 0, .random = true}},
      {"RandomUniformLike", {.infer = InferLike, .cost = CostCopy, .random = true}},
  });
}

}  // namespace gpueta::onnx_import
