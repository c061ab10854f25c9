// Integers that may depend on symbols such as `batch`, as model graphs need
// them: "197*batch", "floordiv(sequence + 1, 2)".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace gpueta {

inline constexpr std::size_t kMaxSymbolLength = 128;

// Values of symbols by name.
using SymbolValues = std::map<std::string, std::int64_t>;

// An integer expression in canonical form (a polynomial over symbols and the
// opaque functions floordiv, min and max), so that equal expressions compare
// equal in the cases shape inference meets. A value type; cheap to copy, and a
// plain integer costs no allocation.
//
// Symbols stand for sizes and divisors for positive sizes: an expression is
// simplified as if every symbol were at least 0 and no divisor were 0.
//
// Expressions are bounded, so that no text and no sequence of operations can
// take long or much memory. What leaves the bounds, or int64, is overflowed():
// a value that no operation repairs and that Evaluate refuses.
class SymInt {
 public:
  SymInt() = default;
  SymInt(std::int64_t constant) : constant_(constant) {}  // NOLINT(google-explicit-constructor): an integer is a SymInt
  // `name` must be a symbol name (below).
  static SymInt Symbol(std::string name);

  // The grammar of Graph.Node.symbolic_dims in proto/gpueta/v1/workload.proto,
  // and what exporters write as dim_param: identifiers, integers, + - * / // %
  // ** and parentheses, and the functions floordiv, ceildiv, mod, floor, min
  // and max in any letter case. Division rounds down. INVALID_ARGUMENT says at
  // which character the text stops making sense.
  static absl::StatusOr<SymInt> Parse(std::string_view text);

  std::optional<std::int64_t> constant() const;
  bool overflowed() const;
  // Symbols, functions and terms of the expression, arguments included; 1 for a
  // constant. What operations on it cost.
  int size() const;
  // FAILED_PRECONDITION naming an unbound symbol; OUT_OF_RANGE on overflow or
  // division by zero.
  absl::StatusOr<std::int64_t> Evaluate(const SymbolValues& values) const;
  // Canonical text that Parse reads back to an equal value.
  std::string ToString() const;
  void CollectSymbols(std::set<std::string>& symbols) const;

  friend SymInt operator+(const SymInt& a, const SymInt& b);
  friend SymInt operator-(const SymInt& a, const SymInt& b);
  friend SymInt operator*(const SymInt& a, const SymInt& b);
  friend bool operator==(const SymInt& a, const SymInt& b);
  friend SymInt FloorDiv(const SymInt& a, const SymInt& b);
  friend SymInt Min(const SymInt& a, const SymInt& b);
  friend SymInt Max(const SymInt& a, const SymInt& b);
  friend std::optional<SymInt> ExactDiv(const SymInt& a, const SymInt& b);
  friend bool IsKnownNonNegative(const SymInt& x);
  friend SymInt Replace(const SymInt& x, std::string_view symbol, const SymInt& by);

 private:
  struct Poly;
  explicit SymInt(std::shared_ptr<const Poly> poly) : poly_(std::move(poly)) {}

  std::int64_t constant_ = 0;         // the value, without a polynomial
  std::shared_ptr<const Poly> poly_;  // null for constants
};

SymInt FloorDiv(const SymInt& a, const SymInt& b);
SymInt CeilDiv(const SymInt& a, const SymInt& b);
// a − b·FloorDiv(a, b): has the sign of b, as in Python.
SymInt Mod(const SymInt& a, const SymInt& b);
SymInt Min(const SymInt& a, const SymInt& b);
SymInt Max(const SymInt& a, const SymInt& b);

// a/b when b divides a as polynomials without remainder.
std::optional<SymInt> ExactDiv(const SymInt& a, const SymInt& b);

// x with `by` in place of a symbol.
SymInt Replace(const SymInt& x, std::string_view symbol, const SymInt& by);

// True only if x ≥ 0 can be proved for all values of the symbols.
bool IsKnownNonNegative(const SymInt& x);

// A letter or underscore, then letters, digits and underscores; at most
// kMaxSymbolLength characters.
bool IsSymbolName(std::string_view name);

}  // namespace gpueta
