#include "core/graph/sym_int.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <numeric>
#include <vector>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// Bounds of an expression. Shapes of real models need a handful of terms; these
// keep the cost of one operation in the microseconds whatever the input.
constexpr std::size_t kMaxTerms = 32;
constexpr int kMaxSize = 256;
constexpr int kMaxDegree = 16;
constexpr std::size_t kMaxArguments = 6;

// Expressions that a proof of x ≥ 0 may look at.
constexpr int kMaxProofSteps = 24;

// In the order of sorting: symbols come first in texts.
enum class Function : std::uint8_t { kSymbol, kFloorDiv, kMin, kMax };

std::string_view Name(Function function) {
  switch (function) {
    case Function::kSymbol: return "symbol";
    case Function::kFloorDiv: return "floordiv";
    case Function::kMin: return "min";
    case Function::kMax: return "max";
  }
  return "?";
}

// A symbol, or a function of expressions.
struct Atom {
  Function function = Function::kSymbol;
  std::string symbol;        // of a symbol
  std::vector<SymInt> args;  // of a function
  int size = 1;
};

struct Factor {
  std::shared_ptr<const Atom> atom;
  int power = 1;
};
using Monomial = std::vector<Factor>;  // sorted by atom

struct Term {
  std::int64_t coefficient = 0;
  Monomial monomial;
};

bool FitsInt64(__int128 value) {
  return value >= std::numeric_limits<std::int64_t>::min() && value <= std::numeric_limits<std::int64_t>::max();
}

// Rounds towards minus infinity; b > 0.
std::int64_t FlooredQuotient(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

std::uint64_t Magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

}  // namespace

// The polynomial of an expression that is no constant, and the algebra on
// expressions. (Its functions are members because only members of SymInt see
// inside one.)
struct SymInt::Poly {
  std::vector<Term> terms;  // sorted by monomial, greatest first; no coefficient is 0
  int size = 1;
  bool overflowed = false;

  static SymInt Overflowed();
  static bool IsOverflowed(const SymInt& x) { return x.poly_ != nullptr && x.poly_->overflowed; }
  // The terms of x; those of a constant are put into `storage`.
  static const std::vector<Term>& TermsOf(const SymInt& x, std::vector<Term>& storage);
  // The expression of sorted terms with distinct monomials.
  static SymInt FromTerms(std::vector<Term> terms);
  static SymInt FromAtom(Atom atom);
  // The atom, if x is nothing but one.
  static const Atom* AsAtom(const SymInt& x);
  // `factor` as an expression.
  static SymInt FromFactor(const Factor& factor) { return FromTerms({{1, {factor}}}); }

  // A total order that depends on content only.
  static std::strong_ordering Compare(const SymInt& a, const SymInt& b);
  static std::strong_ordering Compare(const Atom& a, const Atom& b);
  // Lexicographic in the exponents, smaller atoms first: respects products, as
  // polynomial division needs.
  static std::strong_ordering Compare(const Monomial& a, const Monomial& b);

  static std::optional<Monomial> Quotient(const Monomial& a, const Monomial& b);
  static Monomial Product(const Monomial& a, const Monomial& b);

  static SymInt Add(const SymInt& a, const SymInt& b, std::int64_t sign);
  static SymInt Multiply(const SymInt& a, const SymInt& b);
  static std::optional<SymInt> Divide(const SymInt& a, const SymInt& b);
  // Takes the common integer and monomial factors out of both.
  static void Reduce(SymInt& a, SymInt& b);
  static SymInt DivideByConstant(const SymInt& a, std::int64_t b);
  static SymInt Extreme(Function function, const SymInt& a, const SymInt& b);

  // Proofs of x ≥ 0; `steps` is what is left of kMaxProofSteps.
  static bool IsNonNegative(const SymInt& x, int& steps);
  static bool IsNonNegative(const Term& term, int& steps);
  static bool IsNonNegative(const Atom& atom, int& steps);
  // By a bound of the function that `term` of x is a multiple of.
  static bool IsNonNegativeByBound(const SymInt& x, const Term& term, int& steps);

  static absl::StatusOr<std::int64_t> Evaluate(const Atom& atom, const SymbolValues& values);
  static void Append(const Atom& atom, std::string& text);
  static void CollectSymbols(const SymInt& x, std::set<std::string>& symbols);
  static SymInt Replace(const Atom& atom, std::string_view symbol, const SymInt& by);
};

using Order = std::strong_ordering;

SymInt SymInt::Poly::Overflowed() {
  static const auto overflowed = std::make_shared<const Poly>(Poly{{}, 1, true});
  return SymInt(overflowed);
}

const std::vector<Term>& SymInt::Poly::TermsOf(const SymInt& x, std::vector<Term>& storage) {
  if (x.poly_ != nullptr) return x.poly_->terms;
  storage.clear();
  if (x.constant_ != 0) storage.push_back({x.constant_, {}});
  return storage;
}

SymInt SymInt::Poly::FromTerms(std::vector<Term> terms) {
  std::erase_if(terms, [](const Term& term) { return term.coefficient == 0; });
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms[0].monomial.empty()) return terms[0].coefficient;
  if (terms.size() > kMaxTerms) return Overflowed();
  int size = 0;
  for (const Term& term : terms) {
    int degree = 0;
    size += 1;
    for (const Factor& factor : term.monomial) {
      degree += factor.power;
      size += factor.atom->size;
    }
    if (degree > kMaxDegree || size > kMaxSize) return Overflowed();
  }
  return SymInt(std::make_shared<const Poly>(Poly{std::move(terms), size, false}));
}

SymInt SymInt::Poly::FromAtom(Atom atom) {
  for (const SymInt& arg : atom.args) {
    if (IsOverflowed(arg)) return Overflowed();
    atom.size += arg.size();
  }
  return FromFactor({std::make_shared<const Atom>(std::move(atom)), 1});
}

const Atom* SymInt::Poly::AsAtom(const SymInt& x) {
  if (x.poly_ == nullptr || x.poly_->terms.size() != 1) return nullptr;
  const Term& term = x.poly_->terms[0];
  const bool bare = term.coefficient == 1 && term.monomial.size() == 1 && term.monomial[0].power == 1;
  return bare ? term.monomial[0].atom.get() : nullptr;
}

Order SymInt::Poly::Compare(const SymInt& a, const SymInt& b) {
  if (a.poly_ == b.poly_) return a.constant_ <=> b.constant_;
  if (a.poly_ == nullptr) return Order::less;
  if (b.poly_ == nullptr) return Order::greater;
  if (a.poly_->overflowed != b.poly_->overflowed) return b.poly_->overflowed ? Order::less : Order::greater;
  if (const Order order = a.poly_->terms.size() <=> b.poly_->terms.size(); order != Order::equal) return order;
  for (std::size_t i = 0; i < a.poly_->terms.size(); ++i) {
    const Term& x = a.poly_->terms[i];
    const Term& y = b.poly_->terms[i];
    if (const Order order = Compare(x.monomial, y.monomial); order != Order::equal) return order;
    if (const Order order = x.coefficient <=> y.coefficient; order != Order::equal) return order;
  }
  return Order::equal;
}

Order SymInt::Poly::Compare(const Atom& a, const Atom& b) {
  if (&a == &b) return Order::equal;
  if (const Order order = a.function <=> b.function; order != Order::equal) return order;
  if (const Order order = a.symbol <=> b.symbol; order != Order::equal) return order;
  if (const Order order = a.args.size() <=> b.args.size(); order != Order::equal) return order;
  for (std::size_t i = 0; i < a.args.size(); ++i) {
    if (const Order order = Compare(a.args[i], b.args[i]); order != Order::equal) return order;
  }
  return Order::equal;
}

Order SymInt::Poly::Compare(const Monomial& a, const Monomial& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const Order atoms = Compare(*a[i].atom, *b[i].atom);
    if (atoms != Order::equal) return atoms == Order::less ? Order::greater : Order::less;
    if (const Order powers = a[i].power <=> b[i].power; powers != Order::equal) return powers;
  }
  return a.size() <=> b.size();
}

std::optional<Monomial> SymInt::Poly::Quotient(const Monomial& a, const Monomial& b) {
  Monomial quotient;
  std::size_t next = 0;
  for (const Factor& factor : a) {
    int power = factor.power;
    if (next < b.size() && Compare(*factor.atom, *b[next].atom) == Order::equal) power -= b[next++].power;
    if (power < 0) return std::nullopt;
    if (power > 0) quotient.push_back({factor.atom, power});
  }
  if (next < b.size()) return std::nullopt;
  return quotient;
}

Monomial SymInt::Poly::Product(const Monomial& a, const Monomial& b) {
  Monomial product;
  product.reserve(a.size() + b.size());
  auto x = a.begin();
  auto y = b.begin();
  while (x != a.end() && y != b.end()) {
    const Order order = Compare(*x->atom, *y->atom);
    if (order == Order::equal) {
      product.push_back({x->atom, x->power + y->power});
      ++x, ++y;
    } else {
      product.push_back(order == Order::less ? *x++ : *y++);
    }
  }
  product.insert(product.end(), x, a.end());
  product.insert(product.end(), y, b.end());
  return product;
}

SymInt SymInt::Poly::Add(const SymInt& a, const SymInt& b, std::int64_t sign) {
  if (IsOverflowed(a) || IsOverflowed(b)) return Overflowed();
  std::vector<Term> left_storage;
  std::vector<Term> right_storage;
  const std::vector<Term>& left = TermsOf(a, left_storage);
  const std::vector<Term>& right = TermsOf(b, right_storage);
  std::vector<Term> sum;
  sum.reserve(left.size() + right.size());
  auto x = left.begin();
  auto y = right.begin();
  while (x != left.end() || y != right.end()) {
    const Order order = x == left.end()    ? Order::less
                        : y == right.end() ? Order::greater
                                           : Compare(x->monomial, y->monomial);
    __int128 coefficient = 0;
    const Monomial& monomial = order == Order::less ? y->monomial : x->monomial;
    if (order != Order::less) coefficient += (x++)->coefficient;
    if (order != Order::greater) coefficient += __int128{sign} * (y++)->coefficient;
    if (!FitsInt64(coefficient)) return Overflowed();
    sum.push_back({static_cast<std::int64_t>(coefficient), monomial});
  }
  return FromTerms(std::move(sum));
}

SymInt SymInt::Poly::Multiply(const SymInt& a, const SymInt& b) {
  if (IsOverflowed(a) || IsOverflowed(b)) return Overflowed();
  std::vector<Term> left_storage;
  std::vector<Term> right_storage;
  const std::vector<Term>& left = TermsOf(a, left_storage);
  const std::vector<Term>& right = TermsOf(b, right_storage);
  std::vector<Term> products;
  products.reserve(left.size() * right.size());
  for (const Term& x : left) {
    for (const Term& y : right) {
      const __int128 coefficient = __int128{x.coefficient} * y.coefficient;
      if (!FitsInt64(coefficient)) return Overflowed();
      products.push_back({static_cast<std::int64_t>(coefficient), Product(x.monomial, y.monomial)});
    }
  }
  std::sort(products.begin(), products.end(),
            [](const Term& x, const Term& y) { return Compare(x.monomial, y.monomial) == Order::greater; });
  std::vector<Term> combined;
  for (Term& term : products) {
    if (combined.empty() || Compare(combined.back().monomial, term.monomial) != Order::equal) {
      combined.push_back(std::move(term));
      continue;
    }
    std::int64_t& coefficient = combined.back().coefficient;
    if (__builtin_add_overflow(coefficient, term.coefficient, &coefficient)) return Overflowed();
  }
  return FromTerms(std::move(combined));
}

std::optional<SymInt> SymInt::Poly::Divide(const SymInt& a, const SymInt& b) {
  if (IsOverflowed(a) || IsOverflowed(b) || b == 0) return std::nullopt;
  std::vector<Term> storage;
  const Term divisor = TermsOf(b, storage).front();
  SymInt rest = a;
  SymInt quotient = 0;
  // Long division: each step removes the leading term of the rest.
  for (std::size_t step = 0; step < kMaxTerms && rest != 0; ++step) {
    const Term& leading = TermsOf(rest, storage).front();
    std::optional<Monomial> monomial = Quotient(leading.monomial, divisor.monomial);
    if (!monomial.has_value() || leading.coefficient == std::numeric_limits<std::int64_t>::min() ||
        leading.coefficient % divisor.coefficient != 0) {
      return std::nullopt;
    }
    const SymInt part = FromTerms({{leading.coefficient / divisor.coefficient, *std::move(monomial)}});
    quotient = quotient + part;
    rest = rest - part * b;
    if (IsOverflowed(rest) || IsOverflowed(quotient)) return std::nullopt;
  }
  if (rest != 0) return std::nullopt;
  return quotient;
}

void SymInt::Poly::Reduce(SymInt& a, SymInt& b) {
  std::vector<Term> left_storage;
  std::vector<Term> right_storage;
  const std::vector<Term>& left = TermsOf(a, left_storage);
  const std::vector<Term>& right = TermsOf(b, right_storage);
  std::uint64_t divisor = 0;
  Monomial common = right.front().monomial;
  for (const auto* terms : {&left, &right}) {
    for (const Term& term : *terms) {
      divisor = std::gcd(divisor, Magnitude(term.coefficient));
      Monomial shared;
      for (const Factor& factor : common) {
        for (const Factor& other : term.monomial) {
          if (Compare(*factor.atom, *other.atom) != Order::equal) continue;
          shared.push_back({factor.atom, std::min(factor.power, other.power)});
        }
      }
      common = std::move(shared);
    }
  }
  if (!FitsInt64(divisor) || (divisor == 1 && common.empty())) return;
  const SymInt factor = FromTerms({{static_cast<std::int64_t>(divisor), common}});
  const std::optional<SymInt> reduced_a = Divide(a, factor);
  const std::optional<SymInt> reduced_b = Divide(b, factor);
  if (!reduced_a.has_value() || !reduced_b.has_value()) return;
  a = *reduced_a;
  b = *reduced_b;
}

// floordiv(Σ cᵢ·mᵢ, b) = Σ floor(cᵢ/b)·mᵢ + floordiv(Σ (cᵢ mod b)·mᵢ, b): what
// stays under the division has coefficients in [0, b).
SymInt SymInt::Poly::DivideByConstant(const SymInt& a, std::int64_t b) {
  std::vector<Term> storage;
  std::vector<Term> whole = TermsOf(a, storage);
  std::vector<Term> part = whole;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::int64_t quotient = FlooredQuotient(whole[i].coefficient, b);
    part[i].coefficient = static_cast<std::int64_t>(whole[i].coefficient - __int128{quotient} * b);
    whole[i].coefficient = quotient;
  }
  SymInt quotient = FromTerms(std::move(whole));
  const SymInt rest = FromTerms(std::move(part));
  if (rest.constant().has_value()) return quotient;
  // floordiv(floordiv(x, d) + c, b) = floordiv(x + c·d, b·d)
  const Term& last = rest.poly_->terms.back();
  const SymInt offset = last.monomial.empty() ? SymInt(last.coefficient) : SymInt(0);
  const Atom* inner = AsAtom(rest - offset);
  if (inner != nullptr && inner->function == Function::kFloorDiv) {
    const SymInt& divisor = inner->args[1];
    if (divisor.constant().value_or(0) > 0) {
      return quotient + FloorDiv(inner->args[0] + offset * divisor, divisor * b);
    }
  }
  return quotient + FromAtom({Function::kFloorDiv, "", {rest, b}});
}

SymInt SymInt::Poly::Extreme(Function function, const SymInt& a, const SymInt& b) {
  if (IsOverflowed(a) || IsOverflowed(b)) return Overflowed();
  std::vector<SymInt> args;
  for (const SymInt* x : {&a, &b}) {
    const Atom* atom = AsAtom(*x);
    const bool same = atom != nullptr && atom->function == function;
    if (same) args.insert(args.end(), atom->args.begin(), atom->args.end());
    if (!same) args.push_back(*x);
  }
  std::sort(args.begin(), args.end(), [](const SymInt& x, const SymInt& y) { return Compare(x, y) == Order::less; });
  args.erase(std::unique(args.begin(), args.end()), args.end());
  const auto never_the_extreme = [function](const SymInt& x, const SymInt& other) {
    return IsKnownNonNegative(function == Function::kMin ? x - other : other - x);
  };
  for (std::size_t i = 0; i < args.size();) {
    bool needed = true;
    for (std::size_t j = 0; j < args.size() && needed; ++j) needed = i == j || !never_the_extreme(args[i], args[j]);
    if (needed) {
      ++i;
    } else {
      args.erase(args.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (args.size() == 1) return args[0];
  if (args.size() > kMaxArguments) return Overflowed();
  return FromAtom({function, "", std::move(args)});
}

bool SymInt::Poly::IsNonNegative(const Atom& atom, int& steps) {
  const auto non_negative = [&steps](const SymInt& x) { return IsNonNegative(x, steps); };
  switch (atom.function) {
    case Function::kSymbol: return true;
    case Function::kFloorDiv:
    case Function::kMin: return std::all_of(atom.args.begin(), atom.args.end(), non_negative);
    case Function::kMax: return std::any_of(atom.args.begin(), atom.args.end(), non_negative);
  }
  return false;
}

bool SymInt::Poly::IsNonNegative(const Term& term, int& steps) {
  if (term.coefficient < 0) return false;
  return std::all_of(term.monomial.begin(), term.monomial.end(), [&steps](const Factor& factor) {
    return factor.power % 2 == 0 || IsNonNegative(*factor.atom, steps);
  });
}

bool SymInt::Poly::IsNonNegative(const SymInt& x, int& steps) {
  if (x.poly_ == nullptr) return x.constant_ >= 0;
  if (x.poly_->overflowed || steps-- <= 0) return false;
  const std::vector<Term>& terms = x.poly_->terms;
  if (std::all_of(terms.begin(), terms.end(), [&](const Term& term) { return IsNonNegative(term, steps); })) {
    return true;
  }
  return std::any_of(terms.begin(), terms.end(),
                     [&](const Term& term) { return IsNonNegativeByBound(x, term, steps); });
}

bool SymInt::Poly::IsNonNegativeByBound(const SymInt& x, const Term& term, int& steps) {
  if (term.monomial.size() != 1 || term.monomial[0].power != 1) return false;
  const Atom& atom = *term.monomial[0].atom;
  const SymInt coefficient = term.coefficient;
  const SymInt rest = x - coefficient * FromFactor(term.monomial[0]);
  const bool upper = term.coefficient < 0;  // a bound from above is needed
  switch (atom.function) {
    case Function::kSymbol: return false;
    case Function::kFloorDiv: {
      // (a − b + 1)/b ≤ floordiv(a, b) ≤ a/b for b > 0
      const SymInt& divisor = atom.args[1];
      if (divisor.constant().value_or(0) <= 0) return false;
      const SymInt bound = upper ? atom.args[0] : atom.args[0] - divisor + 1;
      return IsNonNegative(rest * divisor + coefficient * bound, steps);
    }
    case Function::kMin:
    case Function::kMax:
      if (upper != (atom.function == Function::kMin)) return false;
      return std::any_of(atom.args.begin(), atom.args.end(),
                         [&](const SymInt& arg) { return IsNonNegative(rest + coefficient * arg, steps); });
  }
  return false;
}

absl::StatusOr<std::int64_t> SymInt::Poly::Evaluate(const Atom& atom, const SymbolValues& values) {
  if (atom.function == Function::kSymbol) {
    const auto found = values.find(atom.symbol);
    if (found == values.end()) {
      return FailedPrecondition("symbol \"{0}\" has no value; bind it in dims (gpueta --dim {0}=N)", atom.symbol);
    }
    return found->second;
  }
  GPUETA_ASSIGN_OR_RETURN(std::int64_t result, atom.args[0].Evaluate(values));
  for (std::size_t i = 1; i < atom.args.size(); ++i) {
    GPUETA_ASSIGN_OR_RETURN(const std::int64_t arg, atom.args[i].Evaluate(values));
    if (atom.function == Function::kMin) result = std::min(result, arg);
    if (atom.function == Function::kMax) result = std::max(result, arg);
    if (atom.function != Function::kFloorDiv) continue;
    if (arg == 0) return absl::OutOfRangeError("division by zero");
    const __int128 quotient = __int128{result} / arg - (result % arg != 0 && (result < 0) != (arg < 0) ? 1 : 0);
    if (!FitsInt64(quotient)) return absl::OutOfRangeError("the value is out of the range of 64 bits");
    result = static_cast<std::int64_t>(quotient);
  }
  return result;
}

void SymInt::Poly::Append(const Atom& atom, std::string& text) {
  if (atom.function == Function::kSymbol) {
    text += atom.symbol;
    return;
  }
  text += Name(atom.function);
  text += '(';
  for (std::size_t i = 0; i < atom.args.size(); ++i) {
    if (i > 0) text += ", ";
    text += atom.args[i].ToString();
  }
  text += ')';
}

void SymInt::Poly::CollectSymbols(const SymInt& x, std::set<std::string>& symbols) {
  if (x.poly_ == nullptr) return;
  for (const Term& term : x.poly_->terms) {
    for (const Factor& factor : term.monomial) {
      if (factor.atom->function == Function::kSymbol) symbols.insert(factor.atom->symbol);
      for (const SymInt& arg : factor.atom->args) CollectSymbols(arg, symbols);
    }
  }
}

SymInt SymInt::Poly::Replace(const Atom& atom, std::string_view symbol, const SymInt& by) {
  if (atom.function == Function::kSymbol) return atom.symbol == symbol ? by : SymInt::Symbol(atom.symbol);
  SymInt result = gpueta::Replace(atom.args[0], symbol, by);
  for (std::size_t i = 1; i < atom.args.size(); ++i) {
    const SymInt arg = gpueta::Replace(atom.args[i], symbol, by);
    if (atom.function == Function::kMin) result = Min(result, arg);
    if (atom.function == Function::kMax) result = Max(result, arg);
    if (atom.function == Function::kFloorDiv) result = FloorDiv(result, arg);
  }
  return result;
}

SymInt Replace(const SymInt& x, std::string_view symbol, const SymInt& by) {
  if (x.poly_ == nullptr || x.poly_->overflowed) return x;
  SymInt sum = 0;
  for (const Term& term : x.poly_->terms) {
    SymInt product = term.coefficient;
    for (const Factor& factor : term.monomial) {
      const SymInt value = SymInt::Poly::Replace(*factor.atom, symbol, by);
      for (int i = 0; i < factor.power; ++i) product = product * value;
    }
    sum = sum + product;
  }
  return sum;
}

SymInt SymInt::Symbol(std::string name) { return Poly::FromAtom({Function::kSymbol, std::move(name), {}}); }

std::optional<std::int64_t> SymInt::constant() const {
  if (poly_ != nullptr) return std::nullopt;
  return constant_;
}

bool SymInt::overflowed() const { return Poly::IsOverflowed(*this); }

int SymInt::size() const { return poly_ == nullptr ? 1 : poly_->size; }

absl::StatusOr<std::int64_t> SymInt::Evaluate(const SymbolValues& values) const {
  if (poly_ == nullptr) return constant_;
  if (poly_->overflowed) return absl::OutOfRangeError("the expression is too large or left the range of 64 bits");
  __int128 sum = 0;  // of at most kMaxTerms values of 64 bits
  for (const Term& term : poly_->terms) {
    __int128 product = term.coefficient;
    for (const Factor& factor : term.monomial) {
      GPUETA_ASSIGN_OR_RETURN(const std::int64_t value, Poly::Evaluate(*factor.atom, values));
      for (int i = 0; i < factor.power; ++i) {
        product *= value;
        if (!FitsInt64(product)) return absl::OutOfRangeError("the value is out of the range of 64 bits");
      }
    }
    sum += product;
  }
  if (!FitsInt64(sum)) return absl::OutOfRangeError("the value is out of the range of 64 bits");
  return static_cast<std::int64_t>(sum);
}

std::string SymInt::ToString() const {
  if (poly_ == nullptr) return fmt::to_string(constant_);
  if (poly_->overflowed) return "overflow()";
  std::string text;
  for (const Term& term : poly_->terms) {
    const bool first = text.empty();
    const bool negative = term.coefficient < 0;
    if (!first) text += negative ? " - " : " + ";
    if (first && negative) text += '-';
    const std::uint64_t magnitude = Magnitude(term.coefficient);
    bool started = magnitude != 1 || term.monomial.empty();
    if (started) text += fmt::to_string(magnitude);
    for (const Factor& factor : term.monomial) {
      if (started) text += '*';
      started = true;
      Poly::Append(*factor.atom, text);
      if (factor.power > 1) text += fmt::format("**{}", factor.power);
    }
  }
  return text;
}

void SymInt::CollectSymbols(std::set<std::string>& symbols) const { Poly::CollectSymbols(*this, symbols); }

SymInt operator+(const SymInt& a, const SymInt& b) {
  std::int64_t sum = 0;
  if (a.poly_ == nullptr && b.poly_ == nullptr && !__builtin_add_overflow(a.constant_, b.constant_, &sum)) return sum;
  return SymInt::Poly::Add(a, b, 1);
}

SymInt operator-(const SymInt& a, const SymInt& b) {
  std::int64_t difference = 0;
  if (a.poly_ == nullptr && b.poly_ == nullptr && !__builtin_sub_overflow(a.constant_, b.constant_, &difference)) {
    return difference;
  }
  return SymInt::Poly::Add(a, b, -1);
}

SymInt operator*(const SymInt& a, const SymInt& b) {
  std::int64_t product = 0;
  if (a.poly_ == nullptr && b.poly_ == nullptr && !__builtin_mul_overflow(a.constant_, b.constant_, &product)) {
    return product;
  }
  return SymInt::Poly::Multiply(a, b);
}

SymInt FloorDiv(const SymInt& a, const SymInt& b) {
  if (a.overflowed() || b.overflowed()) return SymInt::Poly::Overflowed();
  if (b == 0) return SymInt::Poly::FromAtom({Function::kFloorDiv, "", {a, b}});
  if (a == 0) return 0;
  if (std::optional<SymInt> exact = ExactDiv(a, b); exact.has_value()) return *std::move(exact);
  SymInt numerator = a;
  SymInt denominator = b;
  SymInt::Poly::Reduce(numerator, denominator);
  if (denominator.constant().value_or(0) < 0) {
    numerator = 0 - numerator;
    denominator = 0 - denominator;
    if (numerator.overflowed() || denominator.overflowed()) return SymInt::Poly::Overflowed();
  }
  if (denominator.constant().has_value()) return SymInt::Poly::DivideByConstant(numerator, *denominator.constant());
  return SymInt::Poly::FromAtom({Function::kFloorDiv, "", {numerator, denominator}});
}

SymInt CeilDiv(const SymInt& a, const SymInt& b) {
  if (b.constant().value_or(0) > 0) return FloorDiv(a + b - 1, b);
  return 0 - FloorDiv(0 - a, b);
}

SymInt Mod(const SymInt& a, const SymInt& b) { return a - b * FloorDiv(a, b); }

SymInt Min(const SymInt& a, const SymInt& b) { return SymInt::Poly::Extreme(Function::kMin, a, b); }

SymInt Max(const SymInt& a, const SymInt& b) { return SymInt::Poly::Extreme(Function::kMax, a, b); }

std::optional<SymInt> ExactDiv(const SymInt& a, const SymInt& b) { return SymInt::Poly::Divide(a, b); }

bool operator==(const SymInt& a, const SymInt& b) { return SymInt::Poly::Compare(a, b) == Order::equal; }

bool IsKnownNonNegative(const SymInt& x) {
  int steps = kMaxProofSteps;
  return SymInt::Poly::IsNonNegative(x, steps);
}

bool IsSymbolName(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && name.size() <= kMaxSymbolLength && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

}  // namespace gpueta
