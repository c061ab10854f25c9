#include "core/sampling/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/device/machine_of.h"

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

// Each size of a collective in two types.
std::vector<Measurement> CollectivesOfTwoTypes() {
  std::vector<Measurement> rows;
  for (const DType dtype : {DType::kFp16, DType::kInt8}) {
    for (std::int64_t bytes = 512; bytes < 1 << 24; bytes = bytes * 5 / 4) {
      Measurement row;
      row.device = "h100-sxm";
      row.timing = Timing::kKernel;
      row.kernel.dtype = dtype;
      row.kernel.work = Collective{.op = "all_reduce", .backend = "nccl", .bytes = bytes, .ranks = 8};
      const auto size = static_cast<double>(bytes);
      row.latency_us = 10 + size / 3e5 + std::sin(std::log2(size));
      rows.push_back(row);
    }
  }
  return rows;
}

struct SizesAndTypes {
  std::set<std::int64_t> sizes;
  std::map<DType, int> rows_of_type;
};

SizesAndTypes Count(const std::vector<Measurement>& rows, const std::vector<std::size_t>& chosen) {
  SizesAndTypes out;
  for (const std::size_t i : chosen) {
    out.sizes.insert(std::get<Collective>(rows[i].kernel.work).bytes);
    ++out.rows_of_type[rows[i].kernel.dtype];
  }
  return out;
}

TEST(ChooseSpaceFillingTest, TypesThatTeachEachOtherShareTheSizes) {
  const auto rows = CollectivesOfTwoTypes();
  const auto chosen = ChooseSpaceFilling(rows, {}, 30, 1);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  const SizesAndTypes of = Count(rows, *chosen);
  EXPECT_GE(of.sizes.size(), 28u);
  EXPECT_GE(of.rows_of_type.at(DType::kFp16), 8);
  EXPECT_GE(of.rows_of_type.at(DType::kInt8), 8);
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

DeviceSpec H100() { return Catalogue::BuiltIn().Get("h100-sxm").value(); }

Line WeightsOf(std::int64_t n, std::int64_t k) {
  Line line{.op = Op::kGemm};
  line.dims[static_cast<std::size_t>(*FindDim(Op::kGemm, "n"))] = n;
  line.dims[static_cast<std::size_t>(*FindDim(Op::kGemm, "k"))] = k;
  return line;
}

TEST(GenerateShapesTest, WithASpecSomeShapesStandOnEitherSideOfTilesAndWaves) {
  const DeviceSpec spec = H100();
  int below = 0, above = 0;
  const auto kernels = GenerateShapes(Op::kGemm, DType::kBf16, 1000, 3, &spec);
  for (const Kernel& kernel : *kernels) {
    const std::int64_t m = std::get<Gemm>(kernel.work).m;
    below += m >= 64 && m % 64 == 0 ? 1 : 0;
    above += m >= 64 && m % 64 == 1 ? 1 : 0;
  }
  EXPECT_GT(below, 50);
  EXPECT_GT(above, 50);
}

TEST(GenerateShapesTest, WithASpecMoreShapesFillWholeWavesOrTheCache) {
  const DeviceSpec spec = H100();
  const Machine<double> machine = MachineOf(spec, {.op = Op::kAttention, .dtype = DType::kBf16});
  // Decodes whose blocks are the most that fit in whole waves, and those whose
  // cached keys and values are between a quarter and twice the L2.
  const auto counts = [&](const DeviceSpec* known) {
    std::pair<int, int> found;
    const auto kernels = GenerateShapes(Op::kAttention, DType::kBf16, 4000, 3, known);
    for (const Kernel& kernel : *kernels) {
      const auto& a = std::get<Attention>(kernel.work);
      const double waves = static_cast<double>(a.batch * a.kv_heads) / machine.sms;
      const double next = static_cast<double>((a.batch + 1) * a.kv_heads) / machine.sms;
      found.first +=
          a.phase == Attention::Phase::kDecode && waves > 0.5 && std::floor(next) > std::floor(waves) ? 1 : 0;
      const double octaves =
          std::log2(static_cast<double>(4 * a.batch * a.kv_len * a.kv_heads * a.head_dim) / machine.l2);
      found.second += octaves > -2 && octaves < 1 ? 1 : 0;
    }
    return found;
  };
  const auto [waves_known, cache_known] = counts(&spec);
  const auto [waves_unknown, cache_unknown] = counts(nullptr);
  EXPECT_GT(waves_known, waves_unknown * 5 / 4);
  EXPECT_GT(cache_known, cache_unknown * 11 / 10);
}

TEST(GenerateShapesOnTest, EveryShapeLiesOnALineAndEveryLineHasAsMany) {
  const DeviceSpec spec = H100();
  const std::vector<Line> lines = {WeightsOf(4096, 1024), WeightsOf(1024, 4096)};
  const auto kernels = GenerateShapesOn(lines, DType::kBf16, 100, 3, &spec);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  const auto on = [&](const Line& line) {
    return std::ranges::count_if(*kernels, [&](const Kernel& kernel) { return IsOn(line, kernel); });
  };
  EXPECT_EQ(on(lines[0]), 50);
  EXPECT_EQ(on(lines[1]), 50);
  std::set<std::int64_t> tokens;
  for (const Kernel& kernel : *kernels) tokens.insert(std::get<Gemm>(kernel.work).m);
  EXPECT_GT(tokens.size(), 50u);
}

TEST(GenerateShapesOnTest, APhaseThatALineFixesDecidesTheQueries) {
  Line line{.op = Op::kAttention, .phase = Attention::Phase::kDecode};
  line.dims[static_cast<std::size_t>(*FindDim(Op::kAttention, "heads"))] = 32;
  const DeviceSpec spec = H100();
  const auto kernels = GenerateShapesOn(std::span(&line, 1), DType::kBf16, 50, 3, &spec);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  for (const Kernel& kernel : *kernels) {
    EXPECT_TRUE(IsOn(line, kernel));
    EXPECT_EQ(std::get<Attention>(kernel.work).query_len, 1);
  }
}

TEST(GenerateShapesOnTest, SaysWhichLineHasNoValidShape) {
  Line line{.op = Op::kAttention};
  line.dims[static_cast<std::size_t>(*FindDim(Op::kAttention, "heads"))] = 3;
  line.dims[static_cast<std::size_t>(*FindDim(Op::kAttention, "kv_heads"))] = 2;
  const auto kernels = GenerateShapesOn(std::span(&line, 1), DType::kBf16, 10, 3);
  EXPECT_EQ(kernels.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(kernels.status()), HasSubstr("line 1"));
}

// Rows of a grid with latencies that the family form explains but for `noise`,
// and a ripple that only measuring tells.
std::vector<Measurement> MeasuredGrid(double noise, double ripple, std::uint64_t seed = 1) {
  std::vector<Measurement> rows;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, noise);
  for (std::int64_t m = 1; m <= 4096; m *= 2) {
    for (std::int64_t n = 64; n <= 4096; n *= 2) {
      for (std::int64_t k = 64; k <= 4096; k *= 2) {
        Measurement row = GemmRow(m, n, k);
        const auto product = static_cast<double>(m * n * k);
        const double us = 5 + product / 3e8 + static_cast<double>(m * k + n * k + m * n) / 1e6;
        row.latency_us = us * std::exp(normal(random) + ripple * std::sin(1.7 * std::log2(static_cast<double>(m * n))));
        rows.push_back(row);
      }
    }
  }
  return rows;
}

std::vector<Measurement> Half(const std::vector<Measurement>& rows, std::size_t parity) {
  std::vector<Measurement> half;
  for (std::size_t i = parity; i < rows.size(); i += 2) half.push_back(rows[i]);
  return half;
}

TEST(ChooseActiveTest, ChoosesTheBudgetAmongCandidatesAloneAndExpectsToGain) {
  const auto measured = Half(MeasuredGrid(0.01, 0.3), 0);
  std::vector<Measurement> candidates;
  for (std::int64_t m = 3; m < 4096; m = m * 5 / 4 + 1) candidates.push_back(GemmRow(m, 320, 320));
  const auto choice = ChooseActive(candidates, measured, H100(), 10, 1);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->rows.size(), 10u);
  EXPECT_TRUE(std::ranges::is_sorted(choice->rows));
  ASSERT_EQ(choice->expected.size(), 1u);
  const Expectation& expected = choice->expected.front();
  EXPECT_EQ(expected.chosen, 10u);
  EXPECT_EQ(expected.measured, measured.size());
  EXPECT_FALSE(expected.settled);
  EXPECT_LT(expected.after_ln, expected.before_ln);
  EXPECT_EQ(ChooseActive(candidates, measured, H100(), 10, 1)->rows, choice->rows);
}

TEST(ChooseActiveTest, ABudgetBeyondWhatIsFollowedIsSpentAllTheSame) {
  const auto measured = Half(MeasuredGrid(0.01, 0.3), 0);
  std::vector<Measurement> candidates;
  for (std::int64_t m = 1; m <= 60; ++m) {
    for (std::int64_t n = 1; n <= 60; ++n) candidates.push_back(GemmRow(5 * m, 40 * n, 300));
  }
  const auto choice = ChooseActive(candidates, measured, H100(), 1700, 1);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(std::set<std::size_t>(choice->rows.begin(), choice->rows.end()).size(), 1700u);
}

TEST(ChooseActiveTest, StopsWhereRepeatsShowThatOnlyNoiseIsLeft) {
  const auto rows = MeasuredGrid(0.05, 0, 1);
  auto measured = Half(rows, 0);
  for (const Measurement& row : Half(MeasuredGrid(0.05, 0, 2), 0)) measured.push_back(row);
  const auto choice = ChooseActive(Half(rows, 1), measured, H100(), 100, 1);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_LT(choice->rows.size(), 100u);
  const Expectation& expected = choice->expected.front();
  EXPECT_TRUE(expected.settled);
  EXPECT_NEAR(expected.noise_ln, 0.05, 0.01);
}

TEST(ChooseActiveTest, ScatterThatNoRepeatShowsIsNotTakenForNoise) {
  const auto rows = MeasuredGrid(0.05, 0, 1);
  const auto choice = ChooseActive(Half(rows, 1), Half(rows, 0), H100(), 100, 1);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->rows.size(), 100u);
  EXPECT_FALSE(choice->expected.front().settled);
  EXPECT_GT(choice->expected.front().before_ln, 0.03);
}

TEST(ChooseActiveTest, ASizeMeasuredInOneTypeIsHardlyChosenInAnother) {
  const auto rows = CollectivesOfTwoTypes();
  const auto first = *ChooseSpaceFilling(rows, {}, 26, 1);
  std::vector<Measurement> measured;
  for (const std::size_t i : first) measured.push_back(rows[i]);
  const auto choice = ChooseActive(rows, measured, H100(), 14, 1);
  ASSERT_TRUE(choice.ok()) << choice.status();
  ASSERT_EQ(choice->expected.size(), 1u);
  std::vector<std::size_t> all = first;
  all.insert(all.end(), choice->rows.begin(), choice->rows.end());
  EXPECT_GE(Count(rows, all).sizes.size(), first.size() + choice->rows.size() - 4);
}

TEST(ChooseActiveTest, ChoosesNothingWhereEverythingIsMeasured) {
  const auto rows = MeasuredGrid(0.01, 0.3);
  const auto choice = ChooseActive(rows, rows, H100(), 100, 1);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->rows.empty());
}

TEST(ChooseActiveTest, FillsSpaceWhileTooLittleIsMeasured) {
  const auto rows = MeasuredGrid(0.01, 0.3);
  const std::vector<Measurement> few(rows.begin(), rows.begin() + 10);
  const auto choice = ChooseActive(rows, few, H100(), 30, 1);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->rows.size(), 30u);
  EXPECT_TRUE(choice->expected.empty());
}

TEST(GenerateShapesTest, RefusesOpsItCannotInvent) {
  EXPECT_EQ(GenerateShapes(Op::kCollective, DType::kFp16, 1, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpueta
