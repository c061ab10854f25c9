#include "core/fit/exact_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "core/device/catalogue.h"
#include "core/device/machine_of.h"
#include "core/fit/boosted_trees.h"
#include "core/fit/conv_algorithms_prior.h"
#include "core/fit/family_fit.h"
#include "core/fit/fit.h"
#include "core/fit/gemm_tiles_prior.h"
#include "core/fit/local_error.h"
#include "core/fit/network.h"
#include "core/fit/residual_fit.h"
#include "core/fit/synthetic_shapes.h"
#include "core/ops/forms.h"

namespace gpueta {
namespace {

const TableKey kKey{.op = Op::kGemm, .dtype = DType::kBf16, .timing = Timing::kGraph};
const DeviceSpec& Spec() {
  static const DeviceSpec spec = Catalogue::BuiltIn().Get("h100-sxm").value();
  return spec;
}

// GEMMs with hard waves of the cheaper of two tiles, which the family form
// knows only as features.
std::vector<Measurement> Gemms(std::size_t count, unsigned seed, double noise) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> normal(0, noise);
  const auto draw = [&](double low, double high, double step) {
    const double value = std::exp(std::log(low) + uniform(random) * std::log(high / low));
    return static_cast<std::int64_t>(std::max(1.0, std::round(value / step)) * step);
  };
  std::vector<Measurement> rows(count);
  for (Measurement& row : rows) {
    const Gemm gemm{.batch = 1, .m = draw(16, 8192, 16), .n = draw(128, 8192, 128), .k = draw(128, 8192, 128)};
    row.device = Spec().slug;
    row.timing = Timing::kGraph;
    row.kernel.dtype = DType::kBf16;
    row.kernel.work = gemm;
    const Machine<double> machine = MachineOf(Spec(), kKey);
    const auto padded = [&](double tile) {
      const double tiles =
          std::ceil(static_cast<double>(gemm.m) / tile) * std::ceil(static_cast<double>(gemm.n) / tile);
      return std::ceil(tiles / machine.sms) * tile * tile;
    };
    const double work = 2 * static_cast<double>(gemm.k) * std::min(1.1 * padded(128), 1.5 * padded(64));
    row.latency_us = (4 + 1.2 * work / (machine.peak / machine.sms)) * std::exp(normal(random));
  }
  return rows;
}

TableData DataOf(const std::vector<Measurement>& rows) {
  std::vector<const Measurement*> pointers;
  for (const Measurement& row : rows) pointers.push_back(&row);
  return MakeTableData(kKey, pointers, [](const Measurement&) { return MachineOf(Spec(), kKey); });
}

double MeanError(const Eigen::VectorXd& ln, const TableData& data) { return (ln - data.ln_us).array().abs().mean(); }

TEST(BoostedTreesTest, FollowAStep) {
  Eigen::MatrixXd x(200, 2);
  Eigen::VectorXd y(200);
  for (int i = 0; i < 200; ++i) {
    x.row(i) << i, (i * 7) % 13;
    y[i] = i < 90 ? 1 : 3;
  }
  const BoostedTrees trees = BoostedTrees::Fit(x, y);
  Eigen::MatrixXd at(3, 2);
  at << 20, 0, 88, 12, 150, 5;
  const Eigen::VectorXd predicted = trees.Predict(at);
  EXPECT_NEAR(predicted[0], 1, 0.02);
  EXPECT_NEAR(predicted[1], 1, 0.02);
  EXPECT_NEAR(predicted[2], 3, 0.02);
}

TEST(BoostedTreesTest, NothingToSplitGivesTheShrunkMean) {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Ones(50, 3);
  const BoostedTrees trees = BoostedTrees::Fit(x, Eigen::VectorXd::Constant(50, 2));
  EXPECT_NEAR(trees.Predict(x)[0], 2, 0.05);
}

TEST(GemmTilesPriorTest, LearnsWavesThatTheFamilyFormBlurs) {
  const std::vector<Measurement> rows = Gemms(300, 1, 0.01), others = Gemms(500, 2, 0);
  const TableData data = DataOf(rows), unseen = DataOf(others);
  const double family = MeanError(PredictFamily(unseen, FitFamily(data)), unseen);
  const double tiles = MeanError(FitGemmTilesPrior(data)->Ln(unseen), unseen);
  EXPECT_LT(tiles, 0.7 * family);
}

TEST(ExactModelTest, IsBetterThanItsFamilyFormAndKnowsItsError) {
  const std::vector<Measurement> rows = Gemms(250, 3, 0.01), others = Gemms(500, 4, 0.01);
  const TableData data = DataOf(rows), unseen = DataOf(others);
  const std::vector<Variant> variants = FitFamily(data);
  const ExactModel model = ExactModel::Fit(data, variants, 0);
  const double error = MeanError(model.Ln(unseen), unseen);
  EXPECT_LT(error, 0.5 * MeanError(PredictFamily(unseen, variants), unseen));
  const double held_out = model.held_out_ln().cwiseAbs().mean();
  EXPECT_GT(held_out, 0.5 * error);
  EXPECT_LT(held_out, 2 * error);
}

// Convolutions of two algorithms, one of which needs a third of the time and
// is taken for square images of at least 28 and many channels.
std::vector<Measurement> Convolutions(std::size_t count, unsigned seed, bool named) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() +
             std::uniform_int_distribution<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(values.size()) - 1)(random));
  };
  std::vector<Measurement> rows(count);
  for (Measurement& row : rows) {
    Conv2d conv;
    conv.batch = one_of({1, 2, 4, 8, 16, 32});
    conv.in_channels = one_of({16, 32, 64, 96, 128, 256});
    conv.out_channels = one_of({16, 32, 64, 96, 128, 256});
    conv.height = conv.width = one_of({7, 14, 21, 28, 42, 56});
    conv.kernel_h = conv.kernel_w = 3;
    conv.pad_h = conv.pad_w = 1;
    row.device = Spec().slug;
    row.timing = Timing::kKernel;
    row.kernel.dtype = DType::kFp32;
    row.kernel.work = conv;
    const bool winograd = conv.height >= 28 && conv.in_channels >= 64;
    if (named) row.kernel.launch.kernel = winograd ? "some_winograd_128x128" : "implicit_convolve_sgemm";
    const double work = 18.0 * static_cast<double>(conv.batch * conv.height * conv.width * conv.in_channels) *
                        static_cast<double>(conv.out_channels);
    row.latency_us = 10 + work / (winograd ? 90e6 : 30e6);
  }
  return rows;
}

TableData ConvolutionData(const std::vector<Measurement>& rows) {
  const TableKey key = KeyOf(rows[0].kernel, rows[0].timing);
  std::vector<const Measurement*> pointers;
  for (const Measurement& row : rows) pointers.push_back(&row);
  return MakeTableData(key, pointers, [&](const Measurement&) { return MachineOf(Spec(), key); });
}

TEST(ConvAlgorithmsPriorTest, LearnsWhichAlgorithmAShapeGets) {
  const std::vector<Measurement> rows = Convolutions(200, 11, true), others = Convolutions(400, 12, false);
  const TableData data = ConvolutionData(rows), unseen = ConvolutionData(others);
  const double family = MeanError(PredictFamily(unseen, FitFamily(data)), unseen);
  const std::unique_ptr<Prior> prior = FitConvAlgorithmsPrior(data, 0);
  ASSERT_NE(prior, nullptr);
  EXPECT_LT(MeanError(prior->Ln(unseen), unseen), 0.5 * family);
}

TEST(ConvAlgorithmsPriorTest, NeedsNamesOfTwoAlgorithms) {
  std::vector<Measurement> rows = Convolutions(60, 13, false);
  EXPECT_EQ(FitConvAlgorithmsPrior(ConvolutionData(rows), 0), nullptr);
  for (Measurement& row : rows) row.kernel.launch.kernel = "implicit_convolve_sgemm";
  EXPECT_EQ(FitConvAlgorithmsPrior(ConvolutionData(rows), 0), nullptr);
}

TEST(ExactModelTest, ErrsMoreAroundHardShapes) {
  std::vector<Measurement> rows = Gemms(300, 14, 0.01);
  std::mt19937 random(15);
  std::normal_distribution<double> normal(0, 0.3);
  const auto hard = [](const Measurement& row) { return std::get<Gemm>(row.kernel.work).m < 128; };
  for (Measurement& row : rows) {
    if (hard(row)) row.latency_us *= std::exp(normal(random));
  }
  const std::vector<Measurement> others = Gemms(300, 16, 0);
  const TableData data = DataOf(rows), unseen = DataOf(others);
  const Eigen::VectorXd local = ExactModel::Fit(data, FitFamily(data), 0).LocalErrorAt(unseen);
  double of_hard = 0, of_easy = 0, hard_count = 0;
  for (Eigen::Index r = 0; r < unseen.size(); ++r) {
    const bool is_hard = hard(others[static_cast<std::size_t>(r)]);
    (is_hard ? of_hard : of_easy) += local[r];
    hard_count += is_hard ? 1 : 0;
  }
  EXPECT_GT(of_hard / hard_count, 3 * of_easy / (static_cast<double>(unseen.size()) - hard_count));
}

TEST(LocalErrorsTest, AreMeansOverTheNearest) {
  constexpr Eigen::Index kRows = 20;
  Eigen::MatrixXd covariance(1, kRows);
  Eigen::VectorXd errors(kRows);
  for (Eigen::Index r = 0; r < kRows; ++r) {
    covariance(0, r) = 1.0 / static_cast<double>(1 + r);
    errors[r] = r % 2 == 0 ? static_cast<double>(r) : -static_cast<double>(r);
  }
  EXPECT_DOUBLE_EQ(LocalErrors(covariance, errors)[0], 3.5);  // of 0 to 7
  EXPECT_DOUBLE_EQ(LocalErrors(covariance.leftCols(3), errors.head(3))[0], 1);
}

TEST(ExactModelTest, ScalingAllTimesScalesThePrediction) {
  std::vector<Measurement> rows = Gemms(150, 5, 0.02);
  const std::vector<Measurement> others = Gemms(50, 6, 0);
  const TableData unseen = DataOf(others);
  const TableData data = DataOf(rows);
  const Eigen::VectorXd before = ExactModel::Fit(data, FitFamily(data), 0).Ln(unseen);
  for (Measurement& row : rows) row.latency_us *= 2;
  const TableData doubled = DataOf(rows);
  const Eigen::VectorXd after = ExactModel::Fit(doubled, FitFamily(doubled), 0).Ln(unseen);
  EXPECT_LT((after - before).array().abs().maxCoeff(), std::log(2.0) + 0.25);
  EXPECT_NEAR((after - before).mean(), std::log(2.0), 0.02);
}

TEST(DistilTest, LosesAtMostATenthOfAPoint) {
  const std::vector<Measurement> rows = Gemms(300, 7, 0.02), others = Gemms(2000, 8, 0.02);
  const TableData data = DataOf(rows), unseen = DataOf(others);
  const std::vector<Variant> variants = FitFamily(data);
  const auto mape = [&](const Eigen::VectorXd& ln) { return (ln - unseen.ln_us).array().exp().matrix().array() - 1; };
  const double exact = mape(ExactModel::Fit(data, variants, 0).Ln(unseen)).abs().mean();
  const ResidualFit fit = FitResidual(data, variants, PredictFamily(data, variants), 0);
  const Eigen::VectorXd served =
      PredictFamily(unseen, variants) + EvaluateNetwork(fit.residual, unseen.Features().cast<float>()).cast<double>();
  EXPECT_LT(mape(served).abs().mean(), exact + 0.01);
}

TEST(SyntheticShapesTest, MostTiedDimsStayTied) {
  const TableKey key{.op = Op::kAttention, .dtype = DType::kBf16, .kv_dtype = DType::kBf16, .timing = Timing::kGraph};
  std::vector<Measurement> rows(40);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto length = static_cast<std::int64_t>(64 * (1 + i));
    rows[i].latency_us = 1;
    rows[i].kernel.dtype = DType::kBf16;
    Attention attention;
    attention.kv_dtype = DType::kBf16;
    attention.batch = static_cast<std::int64_t>(1 + i % 4);
    attention.query_len = attention.kv_len = length;
    attention.heads = 32;
    attention.kv_heads = 8;
    attention.head_dim = 128;
    attention.causal = 1;
    rows[i].kernel.work = attention;
  }
  std::vector<const Measurement*> pointers;
  for (const Measurement& row : rows) pointers.push_back(&row);
  const TableData data = MakeTableData(key, pointers, [&](const Measurement&) { return MachineOf(Spec(), key); });
  std::vector<Measurement> storage;
  const TableData shapes = SyntheticShapes(data, 200, 2, storage);
  ASSERT_GT(shapes.size(), 100);
  const auto tied = std::count_if(shapes.rows.begin(), shapes.rows.end(), [](const Measurement* row) {
    const auto& attention = std::get<Attention>(row->kernel.work);
    return attention.query_len == attention.kv_len;
  });
  EXPECT_GT(tied, shapes.size() * 7 / 10);
  EXPECT_LT(tied, shapes.size());
}

}  // namespace
}  // namespace gpueta
