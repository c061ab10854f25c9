#include "core/importers/onnx/tensor.h"

namespace gpueta::onnx_import {

SymInt ElementsOf(const Shape& shape) { return Product(shape, 0, shape.size()); }

SymInt Product(const Shape& shape, std::size_t begin, std::size_t end) {
  SymInt product = 1;
  for (std::size_t i = begin; i < end; ++i) product = product * shape[i];
  return product;
}

std::optional<std::vector<std::int64_t>> ConstantDims(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (const SymInt& dim : shape) {
    if (!dim.constant().has_value()) return std::nullopt;
    dims.push_back(*dim.constant());
  }
  return dims;
}

std::optional<std::int64_t> SmallElementCount(const Shape& shape) {
  const std::int64_t count = ElementsOf(shape).constant().value_or(-1);
  if (count < 0 || count > kMaxContents) return std::nullopt;
  return count;
}

std::string ToText(const Shape& shape) {
  std::string text = "[";
  for (const SymInt& dim : shape) {
    if (text.size() > 1) text += ',';
    text += dim.ToString();
  }
  return text + "]";
}

std::optional<SymInt> BroadcastDim(const SymInt& a, const SymInt& b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (a.constant().has_value() && b.constant().has_value()) return std::nullopt;
  if (a.constant().has_value()) return a;
  if (b.constant().has_value()) return b;
  return Max(a, b);
}

std::optional<Shape> Broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  const std::size_t leading = longer.size() - shorter.size();
  Shape result = longer;
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::optional<SymInt> dim = BroadcastDim(longer[leading + i], shorter[i]);
    if (!dim.has_value()) return std::nullopt;
    result[leading + i] = *std::move(dim);
  }
  return result;
}

std::int64_t BroadcastOffset(const std::vector<std::int64_t>& index, const std::vector<std::int64_t>& dims) {
  std::int64_t offset = 0;
  const std::size_t leading = index.size() - dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    offset = offset * dims[i] + (dims[i] == 1 ? 0 : index[leading + i]);
  }
  return offset;
}

bool Advance(std::vector<std::int64_t>& index, const std::vector<std::int64_t>& dims) {
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (++index[i] < dims[i]) return true;
    index[i] = 0;
  }
  return false;
}

}  // namespace gpueta::onnx_import
