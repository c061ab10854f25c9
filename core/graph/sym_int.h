// Integers that may depend on symbols such as `batch`, as model graphs need
// them: "197*batch", "floordiv(sequence + 1, 2)".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace gpueta {

// Values of symbols by name.
using SymbolValues = std::map<std::string, std::int64_t>;

// An integer expression in canonical form (a polynomial over symbols and
// opaque functions), so that equal expressions compare equal in the cases
// shape inference meets. A value type; cheap to copy.
class SymInt {
 public:
  SymInt() : SymInt(0) {}
  SymInt(std::int64_t constant);  // NOLINT(google-explicit-constructor): an integer is a SymInt
  static SymInt Symbol(std::string name);

  // The grammar of Graph.Node.symbolic_dims in proto/gpueta/v1/workload.proto,
  // and what exporters write as dim_param: identifiers, integers, + - * / //,
  // parentheses, and floordiv, ceildiv, mod, min, max in any letter case.
  static absl::StatusOr<SymInt> Parse(std::string_view text);

  std::optional<std::int64_t> constant() const;
  // FAILED_PRECONDITION naming an unbound symbol; OUT_OF_RANGE on overflow or
  // division by zero.
  absl::StatusOr<std::int64_t> Evaluate(const SymbolValues& values) const;
  // Canonical text that Parse reads back to an equal value.
  std::string ToString() const;
  void CollectSymbols(std::set<std::string>& symbols) const;

  friend SymInt operator+(const SymInt& a, const SymInt& b);
  friend SymInt operator-(const SymInt& a, const SymInt& b);
  friend SymInt operator*(const SymInt& a, const SymInt& b);
  friend SymInt FloorDiv(const SymInt& a, const SymInt& b);
  friend SymInt CeilDiv(const SymInt& a, const SymInt& b);
  friend SymInt Mod(const SymInt& a, const SymInt& b);
  friend SymInt Min(const SymInt& a, const SymInt& b);
  friend SymInt Max(const SymInt& a, const SymInt& b);
  // a/b when b divides a as polynomials without remainder.
  friend std::optional<SymInt> ExactDiv(const SymInt& a, const SymInt& b);
  friend bool operator==(const SymInt& a, const SymInt& b);

 private:
  struct Poly;
  explicit SymInt(std::shared_ptr<const Poly> poly) : poly_(std::move(poly)) {}
  std::shared_ptr<const Poly> poly_;
};

}  // namespace gpueta
