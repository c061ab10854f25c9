#include "core/importers/onnx/number.h"

#include <gtest/gtest.h>

#include <array>

namespace gpueta::onnx_import {
namespace {

SymInt S(std::string_view text) { return SymInt::Parse(text).value(); }

// "5", "h + 1", "0.5", "h/2": elements as text; "?" for what is not known.
std::string Text(const std::optional<Number>& number) {
  if (!number.has_value()) return "?";
  if (const auto* value = std::get_if<SymInt>(&*number)) return value->ToString();
  if (const auto* value = std::get_if<double>(&*number)) return std::to_string(*value).substr(0, 5);
  const Ratio& ratio = std::get<Ratio>(*number);
  return "(" + ratio.numerator.ToString() + ")/(" + ratio.denominator.ToString() + ")";
}

std::string Apply(FoldFunction fold, const Number& a) { return Text(fold(std::array{a})); }
std::string Apply(FoldFunction fold, const Number& a, const Number& b) { return Text(fold(std::array{a, b})); }

TEST(NumberTest, IntegersFollowOnnx) {
  EXPECT_EQ(Apply(FoldAdd, S("h"), S("1")), "h + 1");
  EXPECT_EQ(Apply(FoldSub, S("h"), S("h")), "0");
  EXPECT_EQ(Apply(FoldMul, S("h"), S("3")), "3*h");
  EXPECT_EQ(Apply(FoldDiv, S("h"), S("2")), "floordiv(h, 2)");
  EXPECT_EQ(Apply(FoldDiv, S("-7"), S("2")), "-3");  // towards zero
  EXPECT_EQ(Apply(FoldDiv, S("7"), S("0")), "?");
  EXPECT_EQ(Apply(FoldMod, S("-7"), S("3")), "2");  // the divisor's sign
  EXPECT_EQ(Apply(FoldMod, S("7"), S("0")), "?");
  EXPECT_EQ(Apply(FoldPow, S("h"), S("2")), "h**2");
  EXPECT_EQ(Apply(FoldPow, S("h"), S("-1")), "?");
  EXPECT_EQ(Apply(FoldMin, S("512"), S("h")), "min(512, h)");
  EXPECT_EQ(Apply(FoldMax, S("0"), S("h")), "h");
  EXPECT_EQ(Apply(FoldNeg, S("h")), "-h");
  EXPECT_EQ(Apply(FoldAbs, S("-3")), "3");
}

TEST(NumberTest, FloatsAreDoublesOrRatios) {
  const Number half = 0.5;
  const Number h = Ratio{S("h"), 1};
  EXPECT_EQ(Apply(FoldMul, h, half), "(h)/(2)");
  EXPECT_EQ(Apply(FoldAdd, h, half), "(2*h + 1)/(2)");
  EXPECT_EQ(Apply(FoldSub, h, h), "0.000");
  EXPECT_EQ(Apply(FoldDiv, h, Ratio{S("s"), 1}), "(h)/(s)");
  EXPECT_EQ(Apply(FoldReciprocal, Ratio{S("h"), 2}), "(2)/(h)");
  EXPECT_EQ(Apply(FoldFloor, Ratio{S("h"), 2}), "(floordiv(h, 2))/(1)");
  EXPECT_EQ(Apply(FoldCeil, Ratio{S("h"), 2}), "(floordiv(h + 1, 2))/(1)");
  EXPECT_EQ(Apply(FoldSqrt, 6.25), "2.500");
  EXPECT_EQ(Apply(FoldSqrt, h), "?");
  EXPECT_EQ(Apply(FoldMul, h, 0.1), "?");  // no ratio of small integers
  EXPECT_EQ(Apply(FoldFloor, 2.7), "2.000");
  EXPECT_EQ(Apply(FoldRound, 2.5), "2.000");  // to even
}

TEST(NumberTest, ComparisonsAreDecidedOnlyIfAllSizesAgree) {
  EXPECT_EQ(Apply(FoldEqual, S("h"), S("h")), "1");
  EXPECT_EQ(Apply(FoldEqual, S("h"), S("-1")), "0");
  EXPECT_EQ(Apply(FoldEqual, S("h"), S("1")), "?");
  EXPECT_EQ(Apply(FoldLess, S("h"), S("h + 1")), "1");
  EXPECT_EQ(Apply(FoldLess, S("h"), S("s")), "?");
  EXPECT_EQ(Apply(FoldLessOrEqual, S("min(512, h)"), S("h")), "1");
  EXPECT_EQ(Apply(FoldGreater, S("0"), S("h")), "0");
  EXPECT_EQ(Apply(FoldGreaterOrEqual, S("h"), S("0")), "1");
  EXPECT_EQ(Apply(FoldLess, 1.0, 2.0), "1");
  EXPECT_EQ(Apply(FoldAnd, Truth(true), Truth(false)), "0");
  EXPECT_EQ(Apply(FoldOr, Truth(true), Truth(false)), "1");
  EXPECT_EQ(Apply(FoldNot, Truth(false)), "1");
  EXPECT_EQ(Text(FoldWhere(std::array<Number, 3>{Truth(false), S("a"), S("b")})), "b");
  EXPECT_EQ(Text(FoldWhere(std::array<Number, 3>{S("h"), S("a"), S("a")})), "a");
  EXPECT_EQ(Text(FoldWhere(std::array<Number, 3>{S("h"), S("a"), S("b")})), "?");
}

TEST(NumberTest, CastsKeepWhatTheyCan) {
  using onnx::TensorProto;
  EXPECT_EQ(Text(FoldCast(S("h"), TensorProto::FLOAT)), "(h)/(1)");
  EXPECT_EQ(Text(FoldCast(S("3"), TensorProto::FLOAT)), "3.000");
  EXPECT_EQ(Text(FoldCast(-2.7, TensorProto::INT64)), "-2");
  EXPECT_EQ(Text(FoldCast(1e300, TensorProto::INT64)), "?");
  EXPECT_EQ(Text(FoldCast(Ratio{S("h"), 2}, TensorProto::INT32)), "floordiv(h, 2)");
  EXPECT_EQ(Text(FoldCast(S("5"), TensorProto::BOOL)), "1");
  EXPECT_EQ(Text(FoldCast(S("h"), TensorProto::BOOL)), "?");
  EXPECT_EQ(Text(FoldCast(S("h"), TensorProto::STRING)), "?");
}

TEST(NumberTest, ScalesAreExactForRatiosOfSmallIntegers) {
  EXPECT_EQ(Scaled(S("h"), 2.0), S("2*h"));
  EXPECT_EQ(Scaled(S("h"), 1.0F / 3.0F), S("h//3"));
  EXPECT_EQ(Scaled(S("h"), 1.5), S("3*h//2"));
  EXPECT_EQ(Scaled(S("h"), 0.123456789), std::nullopt);
  EXPECT_EQ(Scaled(S("7"), 1.3), S("9"));
  EXPECT_EQ(Scaled(S("h"), -1.0), std::nullopt);
  EXPECT_EQ(Scaled(S("7"), 1e300), std::nullopt);
}

}  // namespace
}  // namespace gpueta::onnx_import
