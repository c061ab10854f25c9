#include "core/graph/sym_int.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();

SymInt S(const std::string& name) { return SymInt::Symbol(name); }

SymInt Parsed(std::string_view text) {
  const absl::StatusOr<SymInt> value = SymInt::Parse(text);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.value_or(SymInt());
}

TEST(SymIntTest, ConstantsAreFolded) {
  EXPECT_EQ((SymInt(6) * 7 - 2).constant(), 40);
  EXPECT_EQ(FloorDiv(-7, 2), -4);
  EXPECT_EQ(CeilDiv(-7, 2), -3);
  EXPECT_EQ(Mod(-7, 3), 2);
  EXPECT_EQ(Min(3, -4), -4);
  EXPECT_EQ(Max(3, -4), 3);
}

struct EqualPair {
  std::string_view left;
  std::string_view right;
};

class EqualTest : public ::testing::TestWithParam<EqualPair> {};

TEST_P(EqualTest, SpellingsOfOneValueCompareEqual) {
  EXPECT_EQ(Parsed(GetParam().left), Parsed(GetParam().right))
      << Parsed(GetParam().left).ToString() << " and " << Parsed(GetParam().right).ToString();
}

INSTANTIATE_TEST_SUITE_P(
    Spellings, EqualTest,
    ::testing::Values(EqualPair{"batch*sequence", "sequence*batch"}, EqualPair{"(a + b)*(a - b)", "a*a - b**2"},
                      EqualPair{"((sequence//2)) + 1", "floordiv(sequence + 2, 2)"},
                      EqualPair{"Min(512, sequence)", "min(sequence, 512)"}, EqualPair{"a - a", "0"},
                      EqualPair{"floordiv(floordiv(a, 2), 3)", "floordiv(a, 6)"},
                      EqualPair{"(a//2 + 1)//2", "(a + 2)//4"}, EqualPair{"64*batch*sequence//batch", "64*sequence"},
                      EqualPair{"(batch*a + batch)//(2*batch)", "(a + 1)//2"}, EqualPair{"7*(a//7) + mod(a, 7)", "a"},
                      EqualPair{"a % 7", "Mod(a, 7)"}, EqualPair{"ceildiv(a, 4)", "(a + 3)//4"},
                      EqualPair{"min(a, a + 1)", "a"}, EqualPair{"max(min(512, a), a)", "a"},
                      EqualPair{"min(min(a, b), c)", "min(a, b, c)"}, EqualPair{"max(a//2, a)", "a"},
                      EqualPair{"max(0, a)", "a"}, EqualPair{"floor(a/2)", "a//2"}, EqualPair{"-a", "0 - a"},
                      EqualPair{"-2**2", "-4"}, EqualPair{"6*a//4", "3*a//2"},
                      EqualPair{"-9223372036854775808", "0 - 9223372036854775807 - 1"}));

struct TextCase {
  std::string_view text;
  std::string_view canonical;
};

class TextTest : public ::testing::TestWithParam<TextCase> {};

TEST_P(TextTest, TextIsCanonicalAndReadable) {
  const SymInt value = Parsed(GetParam().text);
  EXPECT_EQ(value.ToString(), GetParam().canonical);
  EXPECT_EQ(Parsed(value.ToString()), value);
}

INSTANTIATE_TEST_SUITE_P(Texts, TextTest,
                         ::testing::Values(TextCase{"batch*197", "197*batch"}, TextCase{"1+sequence", "sequence + 1"},
                                           TextCase{"Min(512,sequence)", "min(512, sequence)"},
                                           TextCase{"(sequence-1)//2 + 1", "floordiv(sequence + 1, 2)"},
                                           TextCase{"3 - x", "-x + 3"}, TextCase{"x**2 - 2*x*y", "x**2 - 2*x*y"},
                                           TextCase{"0*x", "0"},
                                           TextCase{"-9223372036854775808", "-9223372036854775808"}));

struct BadText {
  std::string text;
  std::string problem;
};

class BadTextTest : public ::testing::TestWithParam<BadText> {};

TEST_P(BadTextTest, SaysWhereTheTextStopsMakingSense) {
  const absl::StatusOr<SymInt> value = SymInt::Parse(GetParam().text);
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(value.status()), HasSubstr(GetParam().problem));
}

std::string Repeated(std::string_view text, int times) {
  std::string repeated;
  for (int i = 0; i < times; ++i) repeated += text;
  return repeated;
}

INSTANTIATE_TEST_SUITE_P(
    BadTexts, BadTextTest,
    ::testing::Values(BadText{"", "is expected at character 1"}, BadText{"a b", "the end is expected at character 3"},
                      BadText{"a +", "is expected at character 4"}, BadText{"(a", "\")\" is expected"},
                      BadText{"?", "a symbol"}, BadText{"min()", "no function min of 0 arguments"},
                      BadText{"floordiv(1, 2, 3)", "of 3 arguments"}, BadText{"sqrt(a)", "no function sqrt"},
                      BadText{"99999999999999999999", "64 bits"}, BadText{"a**b", "integer exponent"},
                      BadText{"a**99", "smaller exponent"}, BadText{Repeated("a", 129), "a shorter symbol"},
                      BadText{Repeated("(", 5000), "less nesting"}, BadText{Repeated("a+", 40000), "longer than"}));

TEST(SymIntTest, EvaluateNamesTheUnboundSymbol) {
  const absl::Status status = Parsed("2*batch + sequence").Evaluate({{"batch", 1}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("\"sequence\""));
}

TEST(SymIntTest, EvaluateReportsOverflowAndDivisionByZero) {
  EXPECT_EQ(Parsed("a*a*a").Evaluate({{"a", kLargest}}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Parsed("a + 1").Evaluate({{"a", kLargest}}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Parsed("7//a").Evaluate({{"a", 0}}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(FloorDiv(3, 0).Evaluate({}).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(SymIntTest, OverflowedValuesStayOverflowed) {
  const SymInt overflowed = SymInt(kLargest) + 1;
  EXPECT_TRUE(overflowed.overflowed());
  EXPECT_TRUE((SymInt(kSmallest) - 1).overflowed());
  EXPECT_TRUE((SymInt(kLargest) * 2).overflowed());
  EXPECT_TRUE(FloorDiv(kSmallest, -1).overflowed());
  EXPECT_TRUE((S("a") * kLargest * 2).overflowed());
  for (const SymInt& value : {overflowed - overflowed, overflowed * 0, Min(overflowed, 1), FloorDiv(1, overflowed),
                              S("a") + overflowed, Mod(overflowed, 3)}) {
    EXPECT_TRUE(value.overflowed());
    EXPECT_FALSE(value.constant().has_value());
    EXPECT_EQ(value.Evaluate({{"a", 1}}).status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_TRUE(Parsed(value.ToString()).overflowed());
  }
}

TEST(SymIntTest, GrowthIsBounded) {
  SymInt sum = 1;
  SymInt nested = S("x");
  SymInt doubled = S("x");
  for (int i = 0; i < 1000; ++i) {
    sum = sum * (S("x" + std::to_string(i)) + 1);
    nested = FloorDiv(nested * S("y") + 1, S("z") + i);
    doubled = Min(doubled * S("a"), doubled * S("b") + i);
  }
  EXPECT_TRUE(sum.overflowed());
  EXPECT_TRUE(nested.overflowed());
  EXPECT_TRUE(doubled.overflowed());
}

TEST(SymIntTest, ExactDivFindsPolynomialQuotients) {
  EXPECT_EQ(ExactDiv(Parsed("batch*sequence*768"), Parsed("12*batch")), Parsed("64*sequence"));
  EXPECT_EQ(ExactDiv(Parsed("(a + b)*(a + 3*b + 1)"), Parsed("a + b")), Parsed("a + 3*b + 1"));
  EXPECT_EQ(ExactDiv(Parsed("min(a, b)*c"), Parsed("c")), Parsed("min(b, a)"));
  EXPECT_EQ(ExactDiv(Parsed("a + 1"), Parsed("a")), std::nullopt);
  EXPECT_EQ(ExactDiv(Parsed("3*a"), 2), std::nullopt);
  EXPECT_EQ(ExactDiv(Parsed("a"), 0), std::nullopt);
}

TEST(SymIntTest, ProvesWhatSizesCannotBe) {
  for (std::string_view text :
       {"a", "a + 1", "a*b//3", "a - a//2", "a - min(512, a)", "max(a, 3) - 3", "2*(a//2) - a + 1"}) {
    EXPECT_TRUE(IsKnownNonNegative(Parsed(text))) << text;
  }
  for (std::string_view text : {"a - 1", "a - b", "min(a, b - 1)", "-a", "512 - min(513, a)", "a//b - 1"}) {
    EXPECT_FALSE(IsKnownNonNegative(Parsed(text))) << text;
  }
}

TEST(SymIntTest, CollectsSymbolsInsideFunctions) {
  std::set<std::string> symbols;
  Parsed("min(a, floordiv(b, c + 1)) * d").CollectSymbols(symbols);
  EXPECT_EQ(symbols, (std::set<std::string>{"a", "b", "c", "d"}));
}

TEST(SymIntTest, TheTextOfALongExpressionIsReadBack) {
  const std::string name = Repeated("b", kMaxSymbolLength);
  const SymInt value = Parsed(fmt::format("d % {0}**8/8 % dj % jed", name));
  EXPECT_FALSE(value.overflowed());
  EXPECT_EQ(Parsed(value.ToString()), value);
}

TEST(SymIntTest, SymbolNamesAreIdentifiers) {
  for (std::string_view name : {"batch", "_1", "unk__27", "S"}) EXPECT_TRUE(IsSymbolName(name)) << name;
  for (std::string_view name : {"", "1a", "a b", "a.b", "?", "é"}) EXPECT_FALSE(IsSymbolName(name)) << name;
}

// A random expression together with its value computed without SymInt.
struct Sample {
  SymInt value;
  std::optional<std::int64_t> truth;  // nullopt: a division by zero
};

std::int64_t Floored(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

Sample Random(std::mt19937& random, const SymbolValues& values, int depth) {
  const auto pick = [&random](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  if (depth == 0 || pick(5) == 0) {
    if (pick(2) == 0) {
      const std::int64_t constant = pick(9) - 4;
      return {constant, constant};
    }
    auto symbol = values.begin();
    std::advance(symbol, pick(static_cast<int>(values.size())));
    return {SymInt::Symbol(symbol->first), symbol->second};
  }
  const Sample a = Random(random, values, depth - 1);
  const Sample b = Random(random, values, depth - 1);
  const int op = pick(8);
  const auto combined = [&](const SymInt& value, auto truth) -> Sample {
    if (!a.truth.has_value() || !b.truth.has_value()) return {value, std::nullopt};
    return {value, truth(*a.truth, *b.truth)};
  };
  using Truth = std::optional<std::int64_t>;
  switch (op) {
    case 0: return combined(a.value + b.value, [](auto x, auto y) -> Truth { return x + y; });
    case 1: return combined(a.value - b.value, [](auto x, auto y) -> Truth { return x - y; });
    case 2: return combined(a.value * b.value, [](auto x, auto y) -> Truth { return x * y; });
    case 3:
      return combined(FloorDiv(a.value, b.value),
                      [](auto x, auto y) -> Truth { return y == 0 ? Truth() : Floored(x, y); });
    case 4:
      return combined(CeilDiv(a.value, b.value),
                      [](auto x, auto y) -> Truth { return y == 0 ? Truth() : -Floored(-x, y); });
    case 5:
      return combined(Mod(a.value, b.value),
                      [](auto x, auto y) -> Truth { return y == 0 ? Truth() : x - y * Floored(x, y); });
    case 6: return combined(Min(a.value, b.value), [](auto x, auto y) -> Truth { return std::min(x, y); });
    default: return combined(Max(a.value, b.value), [](auto x, auto y) -> Truth { return std::max(x, y); });
  }
}

TEST(SymIntPropertyTest, CanonicalFormsKeepTheValue) {
  std::mt19937 random(20260101);
  int compared = 0;
  for (int i = 0; i < 8000; ++i) {
    const auto size = [&random] { return std::uniform_int_distribution<std::int64_t>(0, 7)(random); };
    const SymbolValues values = {{"a", size()}, {"b", size()}, {"c", size()}};
    const Sample sample = Random(random, values, 4);
    if (!sample.truth.has_value() || sample.value.overflowed()) continue;
    const absl::StatusOr<std::int64_t> evaluated = sample.value.Evaluate(values);
    ASSERT_TRUE(evaluated.ok()) << sample.value.ToString() << ": " << evaluated.status();
    ASSERT_EQ(*evaluated, *sample.truth) << sample.value.ToString();
    ++compared;
  }
  EXPECT_GT(compared, 4000);
}

TEST(SymIntPropertyTest, TextRoundTrips) {
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    const SymInt value = Random(random, {{"batch", 1}, {"sequence", 2}, {"h", 3}}, 4).value;
    ASSERT_EQ(Parsed(value.ToString()), value) << value.ToString();
  }
}

TEST(SymIntPropertyTest, RingLawsHoldStructurally) {
  std::mt19937 random(11);
  for (int i = 0; i < 1000; ++i) {
    const SymbolValues symbols = {{"a", 1}, {"b", 1}};
    const SymInt x = Random(random, symbols, 2).value;
    const SymInt y = Random(random, symbols, 2).value;
    const SymInt z = Random(random, symbols, 2).value;
    ASSERT_EQ(x + y, y + x);
    ASSERT_EQ((x + y) + z, x + (y + z));
    ASSERT_EQ(x * y, y * x);
    ASSERT_EQ((x * y) * z, x * (y * z));
    ASSERT_EQ(x * (y + z), x * y + x * z);
    ASSERT_EQ((x - y) + y, x);
    if (y == 0) continue;
    ASSERT_EQ(ExactDiv(x * y, y), x) << x.ToString() << " times " << y.ToString();
  }
}

}  // namespace
}  // namespace gpueta
