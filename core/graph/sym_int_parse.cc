// Reading expressions: recursive descent over the grammar in sym_int.h.
#include <cctype>
#include <limits>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/sym_int.h"

namespace gpueta {
namespace {

// Exporters write a few dozen characters; the canonical text of the largest
// expression, with the longest names, is shorter than this.
constexpr std::size_t kMaxLength = 65536;
constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxArguments = 16;
constexpr std::int64_t kMaxExponent = 16;  // the greatest degree of a SymInt

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<SymInt> Run() {
    if (text_.size() > kMaxLength) {
      return InvalidArgument("an expression of {} characters is longer than the {} allowed", text_.size(), kMaxLength);
    }
    GPUETA_ASSIGN_OR_RETURN(SymInt value, Sum());
    if (Next() != '\0') return Unexpected("an operator or the end");
    return value;
  }

 private:
  char Next() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_])) != 0) ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool Accept(std::string_view token) {
    Next();
    if (!text_.substr(position_).starts_with(token)) return false;
    position_ += token.size();
    return true;
  }

  absl::Status Unexpected(std::string_view wanted) const {
    return InvalidArgument("\"{}\": {} is expected at character {}", text_, wanted, position_ + 1);
  }

  absl::StatusOr<SymInt> Sum() {
    GPUETA_ASSIGN_OR_RETURN(SymInt value, Product());
    while (true) {
      if (Accept("+")) {
        GPUETA_ASSIGN_OR_RETURN(const SymInt other, Product());
        value = value + other;
      } else if (Accept("-")) {
        GPUETA_ASSIGN_OR_RETURN(const SymInt other, Product());
        value = value - other;
      } else {
        return value;
      }
    }
  }

  absl::StatusOr<SymInt> Product() {
    GPUETA_ASSIGN_OR_RETURN(SymInt value, Signed());
    while (true) {
      if (Accept("//") || Accept("/")) {
        GPUETA_ASSIGN_OR_RETURN(const SymInt other, Signed());
        value = FloorDiv(value, other);
      } else if (Accept("*")) {
        GPUETA_ASSIGN_OR_RETURN(const SymInt other, Signed());
        value = value * other;
      } else if (Accept("%")) {
        GPUETA_ASSIGN_OR_RETURN(const SymInt other, Signed());
        value = Mod(value, other);
      } else {
        return value;
      }
    }
  }

  absl::StatusOr<SymInt> Signed() {
    bool negative = false;
    while (true) {
      if (Accept("-")) {
        negative = !negative;
      } else if (!Accept("+")) {
        break;
      }
    }
    // The smallest integer has no positive counterpart: its sign belongs to the digits.
    if (std::isdigit(static_cast<unsigned char>(Next())) != 0) {
      GPUETA_ASSIGN_OR_RETURN(const SymInt signed_digits, Integer(negative));
      if (!Accept("**")) return signed_digits;
      GPUETA_ASSIGN_OR_RETURN(const SymInt power, RaisedTo(negative ? 0 - signed_digits : signed_digits));
      return negative ? 0 - power : power;
    }
    GPUETA_ASSIGN_OR_RETURN(SymInt value, Primary());
    if (Accept("**")) {
      GPUETA_ASSIGN_OR_RETURN(value, RaisedTo(value));
    }
    return negative ? 0 - value : value;
  }

  absl::StatusOr<SymInt> RaisedTo(const SymInt& base) {
    if (std::isdigit(static_cast<unsigned char>(Next())) == 0) return Unexpected("an integer exponent");
    GPUETA_ASSIGN_OR_RETURN(const SymInt exponent, Integer(false));
    if (exponent.constant().value_or(kMaxExponent) > kMaxExponent) return Unexpected("a smaller exponent");
    SymInt power = 1;
    for (std::int64_t i = 0; i < *exponent.constant(); ++i) power = power * base;
    return power;
  }

  absl::StatusOr<SymInt> Integer(bool negative) {
    std::int64_t value = 0;
    while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) {
      const std::int64_t digit = text_[position_] - '0';
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, negative ? -digit : digit, &value)) {
        return Unexpected("an integer of at most 64 bits");
      }
      ++position_;
    }
    return SymInt(value);
  }

  absl::StatusOr<SymInt> Primary() {
    if (++depth_ > kMaxDepth) return Unexpected("less nesting");
    absl::StatusOr<SymInt> value = Accept("(") ? Parenthesised() : Named();
    --depth_;
    return value;
  }

  absl::StatusOr<SymInt> Parenthesised() {
    GPUETA_ASSIGN_OR_RETURN(SymInt value, Sum());
    if (!Accept(")")) return Unexpected("\")\"");
    return value;
  }

  absl::StatusOr<SymInt> Named() {
    const std::size_t start = position_;
    const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    while (position_ < text_.size() && in_name(text_[position_])) ++position_;
    if (position_ == start) return Unexpected("a symbol, an integer or \"(\"");
    const std::string_view name = text_.substr(start, position_ - start);
    if (!Accept("(")) {
      if (name.size() > kMaxSymbolLength) return Unexpected("a shorter symbol");
      return SymInt::Symbol(std::string(name));
    }
    std::vector<SymInt> args;
    while (!Accept(")")) {
      if (!args.empty() && !Accept(",")) return Unexpected("\",\" or \")\"");
      if (args.size() == kMaxArguments) return Unexpected("fewer arguments");
      GPUETA_ASSIGN_OR_RETURN(SymInt arg, Sum());
      args.push_back(std::move(arg));
    }
    return Call(name, args);
  }

  absl::StatusOr<SymInt> Call(std::string_view name, const std::vector<SymInt>& args) const {
    std::string function(name);
    for (char& c : function) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool two = args.size() == 2;
    if (function == "floordiv" && two) return FloorDiv(args[0], args[1]);
    if (function == "ceildiv" && two) return CeilDiv(args[0], args[1]);
    if (function == "mod" && two) return Mod(args[0], args[1]);
    if (function == "floor" && args.size() == 1) return args[0];  // "/" rounds down already
    if ((function == "min" || function == "max") && !args.empty()) {
      SymInt extreme = args[0];
      for (const SymInt& arg : args) extreme = function == "min" ? Min(extreme, arg) : Max(extreme, arg);
      return extreme;
    }
    // What an overflowed value is written as.
    if (function == "overflow" && args.empty()) return SymInt(std::numeric_limits<std::int64_t>::max()) + 1;
    return InvalidArgument("\"{}\": there is no function {} of {} arguments; use floordiv, ceildiv, mod, min or max",
                           text_, name, args.size());
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<SymInt> SymInt::Parse(std::string_view text) { return Parser(text).Run(); }

}  // namespace gpueta
