#include "core/importers/onnx/number.h"

#include <cmath>

namespace gpueta::onnx_import {
namespace {

// Doubles up to here are integers without gaps.
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

// A float constant that meets a symbol is taken as a ratio with a denominator
// of at most this power of two, or not at all.
constexpr int kMaxDenominatorBits = 16;

std::optional<std::int64_t> Integral(double value) {
  if (std::abs(value) > kExactIntegers || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<Ratio> RatioOf(const Number& x) {
  if (const auto* ratio = std::get_if<Ratio>(&x)) return *ratio;
  const auto* value = std::get_if<double>(&x);
  if (value == nullptr) return std::nullopt;
  for (int bits = 0; bits <= kMaxDenominatorBits; ++bits) {
    if (const auto numerator = Integral(std::ldexp(*value, bits)); numerator.has_value()) {
      return Ratio{*numerator, std::int64_t{1} << bits};
    }
  }
  return std::nullopt;
}

// Ratios without symbols become doubles.
Number Simplified(const Ratio& ratio) {
  const auto numerator = ratio.numerator.constant();
  const auto denominator = ratio.denominator.constant();
  if (numerator.has_value() && denominator.value_or(0) != 0) {
    return static_cast<double>(*numerator) / static_cast<double>(*denominator);
  }
  if (std::optional<SymInt> whole = ExactDiv(ratio.numerator, ratio.denominator); whole.has_value()) {
    return Ratio{*std::move(whole), 1};
  }
  return ratio;
}

// Applies the operation of the elements' kind.
template <class OnInts, class OnDoubles, class OnRatios>
std::optional<Number> Binary(std::span<const Number> x, OnInts on_ints, OnDoubles on_doubles, OnRatios on_ratios) {
  if (x.size() != 2) return std::nullopt;
  const auto* a = std::get_if<SymInt>(&x[0]);
  const auto* b = std::get_if<SymInt>(&x[1]);
  if (a != nullptr && b != nullptr) return on_ints(*a, *b);
  const auto* c = std::get_if<double>(&x[0]);
  const auto* d = std::get_if<double>(&x[1]);
  if (c != nullptr && d != nullptr) return Number(on_doubles(*c, *d));
  const std::optional<Ratio> e = RatioOf(x[0]);
  const std::optional<Ratio> f = RatioOf(x[1]);
  if (!e.has_value() || !f.has_value()) return std::nullopt;
  return on_ratios(*e, *f);
}

template <class OnInt, class OnDouble, class OnRatio>
std::optional<Number> Unary(std::span<const Number> x, OnInt on_int, OnDouble on_double, OnRatio on_ratio) {
  if (x.size() != 1) return std::nullopt;
  if (const auto* a = std::get_if<SymInt>(&x[0])) return on_int(*a);
  if (const auto* a = std::get_if<double>(&x[0])) return Number(on_double(*a));
  return on_ratio(std::get<Ratio>(x[0]));
}

const auto kNever = [](const auto&...) -> std::optional<Number> { return std::nullopt; };

// ONNX divides integers towards zero; of sizes, which are not negative, the
// rounded down quotient is the same.
std::optional<Number> DivideInts(const SymInt& a, const SymInt& b) {
  if (b == 0) return std::nullopt;
  const auto x = a.constant();
  const auto y = b.constant();
  if (!x.has_value() || !y.has_value() || *y == -1) return Number(FloorDiv(a, b));
  return Number(SymInt(*x / *y));
}

// Whether a < b, if known for all values of the symbols.
std::optional<bool> Less(const SymInt& a, const SymInt& b) {
  if (IsKnownNonNegative(b - a - 1)) return true;
  if (IsKnownNonNegative(a - b)) return false;
  return std::nullopt;
}

std::optional<bool> Equal(const SymInt& a, const SymInt& b) {
  if (a == b) return !a.overflowed();
  if (Less(a, b).value_or(false) || Less(b, a).value_or(false)) return false;
  return std::nullopt;
}

std::optional<Number> TruthOf(std::optional<bool> value) {
  if (!value.has_value()) return std::nullopt;
  return Truth(*value);
}

std::optional<bool> BoolOf(const Number& x) {
  const std::optional<std::int64_t> value = ConstantOf(x);
  if (!value.has_value()) return std::nullopt;
  return *value != 0;
}

}  // namespace

Number Truth(bool value) { return SymInt(value ? 1 : 0); }

std::optional<std::int64_t> ConstantOf(const Number& x) {
  const auto* value = std::get_if<SymInt>(&x);
  return value == nullptr ? std::nullopt : value->constant();
}

std::optional<Number> FoldAdd(std::span<const Number> x) {
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return Number(a + b); }, [](double a, double b) { return a + b; },
      [](const Ratio& a, const Ratio& b) {
        return Simplified({a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator});
      });
}

std::optional<Number> FoldSub(std::span<const Number> x) {
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return Number(a - b); }, [](double a, double b) { return a - b; },
      [](const Ratio& a, const Ratio& b) {
        return Simplified({a.numerator * b.denominator - b.numerator * a.denominator, a.denominator * b.denominator});
      });
}

std::optional<Number> FoldMul(std::span<const Number> x) {
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return Number(a * b); }, [](double a, double b) { return a * b; },
      [](const Ratio& a, const Ratio& b) {
        return Simplified({a.numerator * b.numerator, a.denominator * b.denominator});
      });
}

std::optional<Number> FoldDiv(std::span<const Number> x) {
  return Binary(
      x, DivideInts, [](double a, double b) { return a / b; },
      [](const Ratio& a, const Ratio& b) {
        return Simplified({a.numerator * b.denominator, a.denominator * b.numerator});
      });
}

std::optional<Number> FoldMod(std::span<const Number> x) {
  return Binary(
      x,
      [](const SymInt& a, const SymInt& b) -> std::optional<Number> {
        if (b == 0) return std::nullopt;
        return Number(Mod(a, b));
      },
      [](double a, double b) { return std::fmod(a, b); }, kNever);
}

std::optional<Number> FoldPow(std::span<const Number> x) {
  constexpr std::int64_t kMaxExponent = 8;  // shapes are squared at most
  return Binary(
      x,
      [](const SymInt& a, const SymInt& b) -> std::optional<Number> {
        const std::int64_t exponent = b.constant().value_or(-1);
        if (exponent < 0 || exponent > kMaxExponent) return std::nullopt;
        SymInt power = 1;
        for (std::int64_t i = 0; i < exponent; ++i) power = power * a;
        return Number(power);
      },
      [](double a, double b) { return std::pow(a, b); }, kNever);
}

std::optional<Number> FoldMin(std::span<const Number> x) {
  if (x.size() == 1) return x[0];
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return Number(Min(a, b)); },
      [](double a, double b) { return std::min(a, b); }, kNever);
}

std::optional<Number> FoldMax(std::span<const Number> x) {
  if (x.size() == 1) return x[0];
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return Number(Max(a, b)); },
      [](double a, double b) { return std::max(a, b); }, kNever);
}

std::optional<Number> FoldNeg(std::span<const Number> x) {
  return Unary(
      x, [](const SymInt& a) { return Number(0 - a); }, [](double a) { return -a; },
      [](const Ratio& a) {
        return Number(Ratio{0 - a.numerator, a.denominator});
      });
}

std::optional<Number> FoldAbs(std::span<const Number> x) {
  return Unary(
      x, [](const SymInt& a) { return Number(Max(a, 0 - a)); }, [](double a) { return std::abs(a); }, kNever);
}

std::optional<Number> FoldFloor(std::span<const Number> x) {
  return Unary(
      x, kNever, [](double a) { return std::floor(a); },
      [](const Ratio& a) {
        return Simplified({FloorDiv(a.numerator, a.denominator), 1});
      });
}

std::optional<Number> FoldCeil(std::span<const Number> x) {
  return Unary(
      x, kNever, [](double a) { return std::ceil(a); },
      [](const Ratio& a) {
        return Simplified({CeilDiv(a.numerator, a.denominator), 1});
      });
}

std::optional<Number> FoldRound(std::span<const Number> x) {
  return Unary(
      x, kNever, [](double a) { return std::nearbyint(a); }, kNever);
}

std::optional<Number> FoldSqrt(std::span<const Number> x) {
  return Unary(
      x, kNever, [](double a) { return std::sqrt(a); }, kNever);
}

std::optional<Number> FoldReciprocal(std::span<const Number> x) {
  return Unary(
      x, kNever, [](double a) { return 1 / a; },
      [](const Ratio& a) {
        return Simplified({a.denominator, a.numerator});
      });
}

std::optional<Number> FoldEqual(std::span<const Number> x) {
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return TruthOf(Equal(a, b)); },
      [](double a, double b) { return Truth(a == b); }, kNever);
}

std::optional<Number> FoldLess(std::span<const Number> x) {
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return TruthOf(Less(a, b)); },
      [](double a, double b) { return Truth(a < b); }, kNever);
}

std::optional<Number> FoldLessOrEqual(std::span<const Number> x) {
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return TruthOf(Less(a, b + 1)); },
      [](double a, double b) { return Truth(a <= b); }, kNever);
}

std::optional<Number> FoldGreater(std::span<const Number> x) {
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return TruthOf(Less(b, a)); },
      [](double a, double b) { return Truth(a > b); }, kNever);
}

std::optional<Number> FoldGreaterOrEqual(std::span<const Number> x) {
  return Binary(
      x, [](const SymInt& a, const SymInt& b) { return TruthOf(Less(b, a + 1)); },
      [](double a, double b) { return Truth(a >= b); }, kNever);
}

std::optional<Number> FoldAnd(std::span<const Number> x) {
  if (x.size() != 2) return std::nullopt;
  const std::optional<bool> a = BoolOf(x[0]);
  const std::optional<bool> b = BoolOf(x[1]);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  return Truth(*a && *b);
}

std::optional<Number> FoldOr(std::span<const Number> x) {
  if (x.size() != 2) return std::nullopt;
  const std::optional<bool> a = BoolOf(x[0]);
  const std::optional<bool> b = BoolOf(x[1]);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  return Truth(*a || *b);
}

std::optional<Number> FoldNot(std::span<const Number> x) {
  if (x.size() != 1) return std::nullopt;
  const std::optional<bool> a = BoolOf(x[0]);
  if (!a.has_value()) return std::nullopt;
  return Truth(!*a);
}

std::optional<Number> FoldWhere(std::span<const Number> x) {
  if (x.size() != 3) return std::nullopt;
  const std::optional<bool> condition = BoolOf(x[0]);
  if (condition.has_value()) return *condition ? x[1] : x[2];
  const auto* a = std::get_if<SymInt>(&x[1]);
  const auto* b = std::get_if<SymInt>(&x[2]);
  if (a != nullptr && b != nullptr && *a == *b) return x[1];
  return std::nullopt;
}

std::optional<Number> FoldCast(const Number& x, ElementType to) {
  if (to == onnx::TensorProto::BOOL) {
    if (const auto* value = std::get_if<double>(&x)) return Truth(*value != 0);
    const auto* value = std::get_if<SymInt>(&x);
    if (value == nullptr) return std::nullopt;
    const std::optional<bool> zero = Equal(*value, 0);
    if (!zero.has_value()) return std::nullopt;
    return Truth(!*zero);
  }
  if (IsFloat(to)) {
    if (const auto* value = std::get_if<SymInt>(&x)) return Simplified({*value, 1});
    return x;
  }
  if (!IsInteger(to)) return std::nullopt;
  if (const auto* value = std::get_if<double>(&x)) {
    const std::optional<std::int64_t> whole = std::isfinite(*value) ? Integral(std::trunc(*value)) : std::nullopt;
    if (!whole.has_value()) return std::nullopt;
    return Number(SymInt(*whole));
  }
  if (const auto* value = std::get_if<Ratio>(&x)) return Number(FloorDiv(value->numerator, value->denominator));
  return x;
}

std::optional<SymInt> Scaled(const SymInt& size, double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) return std::nullopt;
  if (size.constant().has_value()) {
    const std::optional<std::int64_t> scaled = Integral(std::floor(static_cast<double>(*size.constant()) * scale));
    if (!scaled.has_value()) return std::nullopt;
    return SymInt(*scaled);
  }
  constexpr int kMaxDenominator = 64;
  constexpr double kTolerance = 1e-6;  // of a ratio stored as a 32-bit float
  for (int denominator = 1; denominator <= kMaxDenominator; ++denominator) {
    const double numerator = std::round(scale * denominator);
    if (numerator < 1 || std::abs(scale * denominator - numerator) > kTolerance * numerator) continue;
    const std::optional<std::int64_t> whole = Integral(numerator);
    if (!whole.has_value()) return std::nullopt;
    return FloorDiv(size * *whole, denominator);
  }
  return std::nullopt;
}

}  // namespace gpueta::onnx_import
