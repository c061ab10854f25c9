// What is known of one tensor at import.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/sym_int.h"
#include "core/importers/onnx/element_type.h"
#include "core/importers/onnx/number.h"

namespace gpueta::onnx_import {

using Shape = std::vector<SymInt>;
using Contents = std::vector<Number>;  // row-major

// Contents are followed up to this many elements: shapes, axes and the like.
inline constexpr std::int64_t kMaxContents = 256;

// Real models stay below 10; a limit so that shapes stay small.
inline constexpr std::size_t kMaxRank = 16;

// What a tensor's value depends on.
enum class Origin : std::uint8_t {
  kConstant,  // initialisers and constants
  kShape,     // shapes of other tensors as well
  kData,      // the data of the inputs: computed on the device
};

struct Tensor {
  ElementType type = 0;
  Shape shape;
  std::optional<Contents> contents;
  Origin origin = Origin::kData;
  bool assumed = false;         // the shape rests on an assumption that was warned of
  std::int64_t parameters = 0;  // elements of floating-point initialisers it is made of, for constants
  int producer = -1;            // index in Graph::nodes of the node that computes it; -1: none
};

SymInt ElementsOf(const Shape& shape);
// Product of the dims at [begin, end).
SymInt Product(const Shape& shape, std::size_t begin, std::size_t end);

// The dims, if all are constant.
std::optional<std::vector<std::int64_t>> ConstantDims(const Shape& shape);
// The number of elements, if it is constant and at most kMaxContents.
std::optional<std::int64_t> SmallElementCount(const Shape& shape);

// "[batch,3,224,224]"
std::string ToText(const Shape& shape);

// The size that sizes a and b of one axis broadcast to; nullopt if they cannot.
// Of two symbolic sizes that are not known to be equal it is the larger, which
// is right whenever the model is valid.
std::optional<SymInt> BroadcastDim(const SymInt& a, const SymInt& b);
std::optional<Shape> Broadcast(const Shape& a, const Shape& b);

// Row-major offset of `index` in a tensor of `dims`, where dims are aligned at
// the end and those of 1 are broadcast.
std::int64_t BroadcastOffset(const std::vector<std::int64_t>& index, const std::vector<std::int64_t>& dims);

// Moves `index` to the next in row-major order; false after the last.
bool Advance(std::vector<std::int64_t>& index, const std::vector<std::int64_t>& dims);

// The contents of a tensor of dims `to` whose element at an index is element
// `offset_of(index)` of `from`.
template <class OffsetOf>
Contents Rearranged(const Contents& from, const std::vector<std::int64_t>& to, OffsetOf offset_of) {
  Contents contents;
  for (std::int64_t dim : to) {
    if (dim == 0) return contents;
  }
  std::vector<std::int64_t> index(to.size(), 0);
  do {
    contents.push_back(from[static_cast<std::size_t>(offset_of(index))]);
  } while (Advance(index, to));
  return contents;
}

}  // namespace gpueta::onnx_import
