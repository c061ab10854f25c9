// One element of a tensor whose contents are known at import: the arithmetic
// that exporters spell out to compute shapes.
#pragma once

#include <optional>
#include <span>
#include <variant>

#include "core/graph/sym_int.h"
#include "core/importers/onnx/element_type.h"

namespace gpueta::onnx_import {

// A float that depends on symbols, e.g. sequence/2 before a Floor.
struct Ratio {
  SymInt numerator;
  SymInt denominator = 1;
};

// SymInt: an element of an integer or bool tensor. double, Ratio: of a float
// tensor.
using Number = std::variant<SymInt, double, Ratio>;

// Computes one element of a result from the elements it depends on; nullopt
// when it cannot be known. What the operators of these names do in ONNX.
using FoldFunction = std::optional<Number> (*)(std::span<const Number>);

std::optional<Number> FoldAdd(std::span<const Number> x);
std::optional<Number> FoldSub(std::span<const Number> x);
std::optional<Number> FoldMul(std::span<const Number> x);
std::optional<Number> FoldDiv(std::span<const Number> x);
std::optional<Number> FoldMod(std::span<const Number> x);
std::optional<Number> FoldPow(std::span<const Number> x);
std::optional<Number> FoldMin(std::span<const Number> x);
std::optional<Number> FoldMax(std::span<const Number> x);
std::optional<Number> FoldNeg(std::span<const Number> x);
std::optional<Number> FoldAbs(std::span<const Number> x);
std::optional<Number> FoldFloor(std::span<const Number> x);
std::optional<Number> FoldCeil(std::span<const Number> x);
std::optional<Number> FoldRound(std::span<const Number> x);
std::optional<Number> FoldSqrt(std::span<const Number> x);
std::optional<Number> FoldReciprocal(std::span<const Number> x);
std::optional<Number> FoldEqual(std::span<const Number> x);
std::optional<Number> FoldLess(std::span<const Number> x);
std::optional<Number> FoldLessOrEqual(std::span<const Number> x);
std::optional<Number> FoldGreater(std::span<const Number> x);
std::optional<Number> FoldGreaterOrEqual(std::span<const Number> x);
std::optional<Number> FoldAnd(std::span<const Number> x);
std::optional<Number> FoldOr(std::span<const Number> x);
std::optional<Number> FoldNot(std::span<const Number> x);
std::optional<Number> FoldWhere(std::span<const Number> x);

// The element as one of a tensor of type `to`.
std::optional<Number> FoldCast(const Number& x, ElementType to);

// 0 and 1, the elements of bool tensors.
Number Truth(bool value);

// The element as an integer that is no expression.
std::optional<std::int64_t> ConstantOf(const Number& x);

// `size`·`scale`, rounded down, as Resize computes output sizes. Scales that are
// a ratio of small integers are exact on symbolic sizes too.
std::optional<SymInt> Scaled(const SymInt& size, double scale);

}  // namespace gpueta::onnx_import
