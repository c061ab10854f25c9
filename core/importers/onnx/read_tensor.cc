#include "core/importers/onnx/read_tensor.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/errors.h"
#include "core/ops/counts.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;

constexpr int kWidestElement = 128;  // bits, of COMPLEX128

absl::StatusOr<Shape> ReadDims(const google::protobuf::RepeatedField<std::int64_t>& dims) {
  if (static_cast<std::size_t>(dims.size()) > kMaxRank) {
    return InvalidArgument("has {} dims; at most {} are supported", dims.size(), kMaxRank);
  }
  Shape shape;
  Count elements = 1;
  for (std::int64_t dim : dims) {
    if (dim < 0) return InvalidArgument("has the negative dim {}", dim);
    elements = elements * Count(dim);
    shape.emplace_back(dim);
  }
  // So that the bits of its elements can be counted, whatever their type.
  if ((elements * Count(kWidestElement)).overflowed()) return InvalidArgument("has more than 2^55 elements");
  return shape;
}

// IEEE half precision: 1 sign, 5 exponent, 10 mantissa bits.
double FromHalf(std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent == 0x1F) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

double FromBfloat(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

template <class T>
T LittleEndian(const char* bytes) {
  static_assert(std::endian::native == std::endian::little, "ONNX stores raw data in little-endian order");
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// Element i of raw data; floats as double, integers as SymInt.
std::optional<Number> FromRaw(ElementType type, const char* element) {
  switch (type) {
    case TensorProto::BOOL:
    case TensorProto::UINT8: return SymInt(LittleEndian<std::uint8_t>(element));
    case TensorProto::INT8: return SymInt(LittleEndian<std::int8_t>(element));
    case TensorProto::INT16: return SymInt(LittleEndian<std::int16_t>(element));
    case TensorProto::UINT16: return SymInt(LittleEndian<std::uint16_t>(element));
    case TensorProto::INT32: return SymInt(LittleEndian<std::int32_t>(element));
    case TensorProto::UINT32: return SymInt(LittleEndian<std::uint32_t>(element));
    case TensorProto::INT64: return SymInt(LittleEndian<std::int64_t>(element));
    case TensorProto::FLOAT: return LittleEndian<float>(element);
    case TensorProto::DOUBLE: return LittleEndian<double>(element);
    case TensorProto::FLOAT16: return FromHalf(LittleEndian<std::uint16_t>(element));
    case TensorProto::BFLOAT16: return FromBfloat(LittleEndian<std::uint16_t>(element));
    default: return std::nullopt;
  }
}

template <class T, class Convert>
Contents Converted(const google::protobuf::RepeatedField<T>& field, Convert convert) {
  Contents contents;
  for (const T& value : field) contents.push_back(convert(value));
  return contents;
}

// What stands in the typed field for `type`; empty if nothing does.
Contents FromTypedField(const TensorProto& stored) {
  switch (stored.data_type()) {
    case TensorProto::FLOAT: return Converted(stored.float_data(), [](float v) { return double{v}; });
    case TensorProto::DOUBLE: return Converted(stored.double_data(), [](double v) { return v; });
    case TensorProto::INT64: return Converted(stored.int64_data(), [](std::int64_t v) { return SymInt(v); });
    case TensorProto::UINT32:
      return Converted(stored.uint64_data(), [](std::uint64_t v) { return SymInt(static_cast<std::int64_t>(v)); });
    case TensorProto::FLOAT16:
      return Converted(stored.int32_data(), [](std::int32_t v) { return FromHalf(static_cast<std::uint16_t>(v)); });
    case TensorProto::BFLOAT16:
      return Converted(stored.int32_data(), [](std::int32_t v) { return FromBfloat(static_cast<std::uint16_t>(v)); });
    default: break;
  }
  if (IsInteger(stored.data_type())) return Converted(stored.int32_data(), [](std::int32_t v) { return SymInt(v); });
  return {};
}

std::optional<Contents> ReadContents(const TensorProto& stored, std::int64_t elements) {
  if (stored.data_location() == TensorProto::EXTERNAL || elements > kMaxContents) return std::nullopt;
  Contents contents;
  if (stored.has_raw_data()) {
    const std::size_t width = static_cast<std::size_t>(BitsOf(stored.data_type())) / 8;
    if (width == 0 || stored.raw_data().size() != width * static_cast<std::size_t>(elements)) return std::nullopt;
    for (std::size_t i = 0; i < static_cast<std::size_t>(elements); ++i) {
      std::optional<Number> element = FromRaw(stored.data_type(), stored.raw_data().data() + i * width);
      if (!element.has_value()) return std::nullopt;
      contents.push_back(*std::move(element));
    }
    return contents;
  }
  contents = FromTypedField(stored);
  // Tools that strip weights leave the dims and no data.
  if (contents.size() != static_cast<std::size_t>(elements)) return std::nullopt;
  return contents;
}

}  // namespace

absl::StatusOr<Tensor> ReadTensor(const TensorProto& stored) {
  Tensor tensor;
  tensor.type = stored.data_type();
  tensor.origin = Origin::kConstant;
  GPUETA_ASSIGN_OR_RETURN(tensor.shape, ReadDims(stored.dims()));
  tensor.contents = ReadContents(stored, SizeOf(tensor).elements);
  return tensor;
}

absl::StatusOr<Tensor> ReadSparseTensor(const onnx::SparseTensorProto& stored) {
  Tensor tensor;
  tensor.type = stored.values().data_type();
  tensor.origin = Origin::kConstant;
  GPUETA_ASSIGN_OR_RETURN(tensor.shape, ReadDims(stored.dims()));
  return tensor;
}

StoredSize SizeOf(const Tensor& tensor) {
  StoredSize size;
  size.elements = ElementsOf(tensor.shape).constant().value_or(0);
  size.bytes = BytesOf(size.elements, BitsOf(tensor.type)).value();
  return size;
}

}  // namespace gpueta::onnx_import
