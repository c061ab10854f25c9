#include "calibration/backends/cpu/loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace gpueta {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

TEST(Bf16Test, RoundsToNearestEven) {
  EXPECT_EQ(ToFloat(ToBf16(1)), 1);
  EXPECT_EQ(ToFloat(ToBf16(-2.5F)), -2.5F);
  EXPECT_EQ(ToFloat(ToBf16(1 + 0x1p-8F)), 1);                // halfway, down to even
  EXPECT_EQ(ToFloat(ToBf16(1 + 3 * 0x1p-8F)), 1 + 0x1p-6F);  // halfway, up to even
}

struct Elementwise {
  std::string op;
  std::int64_t operands;
  std::function<float(float x, float second, float third)> expected;
};

const Elementwise kElementwise[] = {
    {"copy", 1, [](float x, float, float) { return x; }},
    {"neg", 1, [](float x, float, float) { return -x; }},
    {"reciprocal", 1, [](float x, float, float) { return 1 / x; }},
    {"erf", 1, [](float x, float, float) { return std::erf(x); }},
    {"sin", 1, [](float x, float, float) { return std::sin(x); }},
    {"cos", 1, [](float x, float, float) { return std::cos(x); }},
    {"hardsigmoid", 1, [](float x, float, float) { return std::fmin(1.0F, std::fmax(0.0F, x / 6 + 0.5F)); }},
    {"cast", 1, [](float x, float, float) { return std::trunc(x); }},
    {"logical", 1, [](float x, float, float) { return x == 0 ? 1.0F : 0.0F; }},
    {"logical", 2, [](float x, float second, float) { return x != 0 && second != 0 ? 1.0F : 0.0F; }},
    {"compare", 1, [](float x, float, float) { return x > 0 ? 1.0F : 0.0F; }},
    {"compare", 2, [](float x, float second, float) { return x > second ? 1.0F : 0.0F; }},
    {"mod", 1, [](float x, float, float) { return std::fmod(x, 3.0F); }},
    {"mod", 2, [](float x, float second, float) { return std::fmod(x, second); }},
    {"pow", 2, [](float x, float second, float) { return std::pow(x, second); }},
    {"silu_mul", 2, [](float x, float second, float) { return x / (1 + std::exp(-x)) * second; }},
    {"add", 3, [](float x, float second, float third) { return x + second + third; }},
    {"accumulate_gradient", 2, [](float x, float second, float) { return x + second; }},
    {"clear_gradient", 1, [](float, float, float) { return 0.0F; }},
    {"where", 1, [](float x, float, float) { return x > 0 ? x : 1; }},
    {"where", 2, [](float x, float second, float) { return x > 0 ? x : second; }},
    {"where", 3, [](float x, float second, float third) { return third > 0 ? x : second; }},
};

// More than one vector and a rest; positive where an operator needs it.
constexpr std::size_t kElements = 53;
std::vector<float> Values(float first, float step) {
  std::vector<float> values;
  for (std::size_t i = 0; i < kElements; ++i) values.push_back(first + step * static_cast<float>(i));
  return values;
}

TEST(ElementwiseTest, ComputesEachOperatorInBothTypes) {
  for (const Elementwise& c : kElementwise) {
    const std::vector<float> x = c.op == "pow"       ? Values(0.25F, 0.125F)
                                 : c.op == "logical" ? Values(-4, 0.25F)
                                                     : Values(-4.125F, 0.25F);
    const std::vector<float> second = Values(0.75F, 0.125F);
    const std::vector<float> third = Values(-1, 0.0625F);
    std::vector<float> expected;
    for (std::size_t i = 0; i < kElements; ++i) expected.push_back(c.expected(x[i], second[i], third[i]));

    std::vector<float> y(kElements);
    const auto loop = FindElementwise<float>(c.op, c.operands);
    ASSERT_NE(loop, nullptr) << c.op;
    loop(x.data(), second.data(), third.data(), y.data(), kElements);
    std::vector<Bf16> narrow_x;
    std::vector<Bf16> narrow_second;
    std::vector<Bf16> narrow_third;
    for (std::size_t i = 0; i < kElements; ++i) {
      narrow_x.push_back(ToBf16(x[i]));
      narrow_second.push_back(ToBf16(second[i]));
      narrow_third.push_back(ToBf16(third[i]));
    }
    std::vector<Bf16> narrow_y(kElements);
    FindElementwise<Bf16>(c.op, c.operands)(narrow_x.data(), narrow_second.data(), narrow_third.data(), narrow_y.data(),
                                            kElements);
    for (std::size_t i = 0; i < kElements; ++i) {
      EXPECT_NEAR(y[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << c.op << " of " << x[i];
      EXPECT_NEAR(ToFloat(narrow_y[i]), expected[i], 0x1p-7 * (1 + std::abs(expected[i]))) << c.op << " of " << x[i];
    }
  }
}

TEST(ElementwiseTest, KnowsNoOtherOperatorOrNumberOfOperands) {
  EXPECT_EQ(FindElementwise<float>("scatter", 1), nullptr);
  EXPECT_EQ(FindElementwise<float>("erf", 2), nullptr);
}

std::vector<float> RunRows(const char* op, const std::vector<float>& x, const std::vector<float>& parameters,
                           std::size_t rows, std::size_t cols) {
  const RowLoop<float> loop = FindRowLoop<float>(op);
  EXPECT_EQ(parameters.size(), rows * loop.per_row + cols * loop.per_col + rows * cols * loop.per_element);
  std::vector<float> y(loop.one_result_per_row ? rows : rows * cols);
  // In two parts, as two threads would.
  loop.run(x.data(), parameters.data(), y.data(), {.rows = rows, .cols = cols, .begin = 0, .end = 1});
  loop.run(x.data(), parameters.data(), y.data(), {.rows = rows, .cols = cols, .begin = 1, .end = rows});
  return y;
}

const std::vector<float> kTwoRows = {1, 2, 3, -1, 0, 4};

TEST(RowLoopTest, RmsNormDividesByTheRootMeanSquare) {
  const float first = std::sqrt((1.0F + 4 + 9) / 3);
  const float second = std::sqrt((1.0F + 16) / 3);
  EXPECT_THAT(RunRows("rmsnorm", kTwoRows, {1, 1, 2}, 2, 3),
              Pointwise(FloatNear(1e-4F), {1 / first, 2 / first, 6 / first, -1 / second, 0.0F, 8 / second}));
}

TEST(RowLoopTest, BatchNormScalesAndShiftsRows) {
  EXPECT_THAT(RunRows("batchnorm", kTwoRows, {2, 1, 10, 0}, 2, 3), ElementsAre(3, 5, 7, -10, 0, 40));
}

TEST(RowLoopTest, ReduceSumsRows) { EXPECT_THAT(RunRows("reduce", kTwoRows, {}, 2, 3), ElementsAre(6, 3)); }

TEST(RowLoopTest, CumSumRunsAlongRows) {
  EXPECT_THAT(RunRows("cumsum", kTwoRows, {}, 2, 3), ElementsAre(1, 3, 6, -1, -1, 3));
}

TEST(PoolTest, TakesTheLargestOfOverlappingWindows) {
  const auto pool = [](const std::vector<float>& x, std::size_t rows, std::size_t cols, std::size_t stride) {
    std::vector<float> y(rows * cols);
    Pool<float>(x.data(), y.data(), stride, {.rows = rows, .cols = cols, .begin = 0, .end = rows});
    return y;
  };
  EXPECT_THAT(pool({1, 2, 3, -1, 0, 4}, 2, 3, 1), ElementsAre(2, 3, 3, 0, 4, 4));
  EXPECT_THAT(pool({5, 7}, 2, 1, 1), ElementsAre(5, 7));
  EXPECT_THAT(pool({1, 9, 2, 3, 4, 0}, 1, 3, 2), ElementsAre(9, 9, 4));
}

TEST(RowLoopTest, ResizeAveragesNeighbours) {
  EXPECT_THAT(RunRows("resize", kTwoRows, {}, 2, 3), ElementsAre(1.5, 2.5, 3, -0.5, 2, 4));
}

TEST(RowLoopTest, RopeTurnsPairs) {
  std::vector<float> angles(2 * 2 * kRopePairs, 0);
  angles[0] = 1;               // first row: cosine 1, sine 0
  angles[3 * kRopePairs] = 1;  // second row: cosine 0, sine 1
  EXPECT_THAT(RunRows("rope", kTwoRows, angles, 2, 3), ElementsAre(1, 2, 3, 0, -1, 4));
}

TEST(RowLoopTest, EmbeddingCopiesRowsOfTheTable) {
  const std::vector<float> table = {0, 0, 1, 10, 2, 20, 3, 30};
  const std::vector<float> y = RunRows("embedding", {}, table, 4, 2);
  for (std::size_t row = 0; row < 4; ++row) EXPECT_EQ(y[2 * row + 1], 10 * y[2 * row]);
}

TEST(RowLoopTest, KnowsNoOtherOperator) { EXPECT_EQ(FindRowLoop<float>("relu").run, nullptr); }

TEST(MaskTest, HidesTheFuture) {
  // Two queries at the end of three keys, for two heads.
  std::vector<float> scores(12, 1);
  MaskCausal(scores.data(), 2, {.rows = 4, .cols = 3, .begin = 0, .end = 4});
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const bool hidden = i == 2 || i == 8;
    EXPECT_EQ(scores[i] < -1e29F, hidden) << i;
  }
}

TEST(TriadTest, AddsAScaledArray) {
  const std::vector<float> a = {1, 2, 3};
  const std::vector<float> b = {10, 20, 30};
  std::vector<float> y(3);
  Triad(a.data(), b.data(), 2, y.data(), 3);
  EXPECT_THAT(y, ElementsAre(21, 42, 63));
}

TEST(TouchLinesTest, ChangesNothing) {
  std::vector<std::byte> bytes(200, std::byte{7});
  TouchLines(bytes.data(), bytes.size());
  EXPECT_THAT(bytes, testing::Each(std::byte{7}));
}

}  // namespace
}  // namespace gpueta
