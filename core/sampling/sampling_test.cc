#include "core/sampling/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

Measurement GemmRow(std::int64_t m, std::int64_t n, std::int64_t k, Gemm::Layer layer = Gemm::Layer::kGemm) {
  Measurement row;
  row.device = "h100-sxm";
  row.timing = Timing::kGraph;
  row.kernel.dtype = DType::kBf16;
  row.kernel.work = Gemm{.layer = layer, .batch = 1, .m = m, .n = n, .k = k};
  return row;
}

std::vector<Measurement> Grid() {
  std::vector<Measurement> rows;
  for (std::int64_t m = 1; m <= 4096; m *= 2) {
    for (std::int64_t n = 64; n <= 4096; n *= 2) {
      for (std::int64_t k = 64; k <= 4096; k *= 2) rows.push_back(GemmRow(m, n, k));
    }
  }
  return rows;
}

TEST(ChooseSpaceFillingTest, ChoosesTheBudgetWithoutRepetition) {
  const auto rows = Grid();
  const auto chosen = ChooseSpaceFilling(rows, {}, 50, 1);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(std::set<std::size_t>(chosen->begin(), chosen->end()).size(), 50u);
}

TEST(ChooseSpaceFillingTest, CoversTheSpaceBetterThanARandomDraw) {
  const auto rows = Grid();
  const auto chosen = ChooseSpaceFilling(rows, {}, 40, 1).value();
  // Largest distance from a candidate to the nearest chosen one, in octaves.
  const auto radius = [&](const std::vector<std::size_t>& picks) {
    double largest = 0;
    for (const Measurement& row : rows) {
      double nearest = 1e9;
      for (std::size_t p : picks) {
        double d = 0;
        for (int i = 1; i < 4; ++i) {
          const double x = std::log2(static_cast<double>(GetDim(row.kernel, i))) -
                           std::log2(static_cast<double>(GetDim(rows[p].kernel, i)));
          d += x * x;
        }
        nearest = std::min(nearest, d);
      }
      largest = std::max(largest, nearest);
    }
    return largest;
  };
  std::vector<std::size_t> first_rows(40);
  for (std::size_t i = 0; i < 40; ++i) first_rows[i] = i * rows.size() / 40 % rows.size();
  EXPECT_LT(radius(chosen), radius(first_rows));
}

TEST(ChooseSpaceFillingTest, IsDeterministicBySeed) {
  const auto rows = Grid();
  EXPECT_EQ(ChooseSpaceFilling(rows, {}, 30, 7).value(), ChooseSpaceFilling(rows, {}, 30, 7).value());
  EXPECT_NE(ChooseSpaceFilling(rows, {}, 30, 7).value(), ChooseSpaceFilling(rows, {}, 30, 8).value());
}

TEST(ChooseSpaceFillingTest, NeverChoosesWhatIsMeasured) {
  const auto rows = Grid();
  const std::vector<Measurement> measured(rows.begin(), rows.begin() + 200);
  const auto chosen = ChooseSpaceFilling(rows, measured, 100, 1).value();
  for (std::size_t i : chosen) EXPECT_GE(i, 200u);
}

TEST(ChooseSpaceFillingTest, TakesEverythingWhenThereIsLess) {
  const auto rows = Grid();
  EXPECT_EQ(ChooseSpaceFilling(rows, {}, 100000, 1)->size(), rows.size());
}

TEST(ChooseSpaceFillingTest, GivesRareLabelsMoreThanTheirShare) {
  auto rows = Grid();
  for (int i = 0; i < 10; ++i) rows.push_back(GemmRow(100 + i, 64, 64, Gemm::Layer::kLinear));
  int linear = 0;
  const auto chosen = ChooseSpaceFilling(rows, {}, 60, 1).value();
  for (std::size_t i : chosen) {
    linear += std::get<Gemm>(rows[i].kernel.work).layer == Gemm::Layer::kLinear ? 1 : 0;
  }
  EXPECT_GE(linear, 2);
}

TEST(ChooseSpaceFillingTest, SplitsTheBudgetOverTables) {
  auto rows = Grid();
  const std::size_t first = rows.size();
  for (Measurement row : Grid()) {
    row.kernel.dtype = DType::kFp8;
    rows.push_back(row);
  }
  const auto chosen = ChooseSpaceFilling(rows, {}, 40, 1).value();
  EXPECT_EQ(std::count_if(chosen.begin(), chosen.end(), [&](std::size_t i) { return i < first; }), 20);
}

TEST(ChooseSpaceFillingTest, RefusesCandidatesOfTwoOps) {
  auto rows = Grid();
  rows.back().kernel.work = Vector{.op = "add", .rows = 1, .cols = 1};
  rows.back().line = 639;
  const auto chosen = ChooseSpaceFilling(rows, {}, 10, 1);
  EXPECT_EQ(chosen.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(chosen.status()), HasSubstr("line 639"));
}

TEST(GenerateShapesTest, EveryShapeIsValidAndTheSeedDecides) {
  for (Op op : {Op::kGemm, Op::kConv2d, Op::kAttention, Op::kMoe, Op::kVector}) {
    const auto kernels = GenerateShapes(op, DType::kFp32, 200, 3);
    ASSERT_TRUE(kernels.ok()) << Name(op);
    ASSERT_EQ(kernels->size(), 200u);
    for (const Kernel& kernel : *kernels) {
      EXPECT_TRUE(Validate(kernel).ok()) << Describe(kernel);
      EXPECT_EQ(kernel.op(), op);
    }
    const auto again = GenerateShapes(op, DType::kFp32, 200, 3);
    for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(HashOf((*kernels)[i]), HashOf((*again)[i]));
  }
}

TEST(GenerateShapesTest, RefusesOpsItCannotInvent) {
  EXPECT_EQ(GenerateShapes(Op::kCollective, DType::kFp16, 1, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpueta
