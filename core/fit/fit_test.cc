#include "core/fit/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/device/machine_of.h"
#include "core/feedback/error_summary.h"
#include "core/fit/interval_fit.h"
#include "core/fit/table_fit.h"
#include "core/fit/wave_fit.h"
#include "core/ops/forms.h"
#include "core/ops/launch.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"
#include "core/predict/wave.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

DeviceSpec Spec() { return Catalogue::BuiltIn().Get("h100-sxm").value(); }

// A device whose GEMMs follow the family form with parameters off their
// starts, a wave step the form does not know, and noise.
std::vector<Measurement> SimulatedGemms(std::size_t count, unsigned seed, double noise, double scale = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> normal(0, noise);
  const TableKey key{.op = Op::kGemm, .dtype = DType::kBf16, .timing = Timing::kGraph};
  const Machine<double> machine = MachineOf(Spec(), key);
  std::vector<double> theta;
  for (const ParamSpec& param : GemmForm::kParams) theta.push_back(param.start);
  theta[0] = 4;
  theta[1] = 1.7;
  theta[2] = 1.4;
  const auto draw = [&](double low, double high, double step) {
    return std::max(1.0, std::round(std::exp(std::log(low) + uniform(random) * std::log(high / low)) / step)) * step;
  };
  std::vector<Measurement> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const double dims[] = {1, draw(1, 8192, 1), draw(64, 8192, 64), draw(64, 8192, 64)};
    Measurement row;
    row.device = "h100-sxm";
    row.source = "simulated";
    row.timing = Timing::kGraph;
    row.kernel.dtype = DType::kBf16;
    row.kernel.work = Gemm{.batch = 1,
                           .m = static_cast<std::int64_t>(dims[1]),
                           .n = static_cast<std::int64_t>(dims[2]),
                           .k = static_cast<std::int64_t>(dims[3])};
    const double bump = dims[1] > 500 ? 1.1 : 1.0;
    row.latency_us = scale * bump * FormLatencyUs(key.op, key.phase, machine, theta, dims) * std::exp(normal(random));
    rows.push_back(row);
  }
  return rows;
}

Predictor PredictorOf(const Profile& profile) {
  return Predictor(profile.spec,
                   std::make_shared<const CompiledProfile>(ParseProfile(SerializeProfile(profile)).value()), nullptr);
}

ErrorSummary Errors(const Predictor& predictor, const std::vector<Measurement>& rows,
                    const std::string& estimator = "") {
  std::vector<PredictedAndObserved> pairs;
  for (const Measurement& row : rows) {
    pairs.push_back({predictor.EstimateKernel(row.kernel, {.timing = row.timing, .estimator = estimator})->latency_us,
                     row.latency_us});
  }
  return Summarise(pairs);
}

// A gradient has the shape of its forward convolution and takes longer: a table of both
// would describe neither.
TEST(FitProfileTest, GradientsTeachForwardTablesNothing) {
  std::vector<Measurement> forward;
  for (std::int64_t i = 0; i < 40; ++i) {
    Measurement row{.device = "h100-sxm", .timing = Timing::kGraph};
    row.kernel = {.dtype = DType::kBf16,
                  .work = Conv2d{.batch = 1 + i % 8,
                                 .in_channels = 64,
                                 .height = 14 + i,
                                 .width = 14,
                                 .out_channels = 64 * (1 + i % 3),
                                 .kernel_h = 3,
                                 .kernel_w = 3}};
    row.latency_us = 3 + static_cast<double>(CountsOf(row.kernel).flops.value()) / 3e8;
    forward.push_back(row);
  }
  std::vector<Measurement> gradients = forward;
  for (Measurement& row : gradients) {
    row.latency_us *= 3;
    row.kernel.launch.kernel = "cudnn_wgrad";
  }
  std::vector<Measurement> both = forward;
  both.insert(both.end(), gradients.begin(), gradients.end());
  const auto profile = FitProfile(Spec(), both);
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->tables.size(), 1U);
  EXPECT_EQ(profile->tables[0].rows, 40);
  const Predictor predictor = PredictorOf(*profile);
  const Predictor alone = PredictorOf(FitProfile(Spec(), forward).value());
  for (const Measurement& row : forward) {
    EXPECT_EQ(predictor.EstimateKernel(row.kernel, {.timing = row.timing})->latency_us.p50,
              alone.EstimateKernel(row.kernel, {.timing = row.timing})->latency_us.p50);
  }
  EXPECT_THAT(MessageOf(FitProfile(Spec(), gradients).status()), HasSubstr("gradients"));
}

TEST(FitProfileTest, PredictsShapesItNeverSaw) {
  const auto profile = FitProfile(Spec(), SimulatedGemms(250, 1, 0.02));
  ASSERT_TRUE(profile.ok()) << profile.status();
  const ErrorSummary errors = Errors(PredictorOf(*profile), SimulatedGemms(1000, 2, 0.02));
  EXPECT_LT(errors.mape, 0.045);
  EXPECT_LT(std::abs(errors.bias), 0.02);
}

TEST(FitProfileTest, IntervalsCoverWhatTheyPromise) {
  const auto profile = FitProfile(Spec(), SimulatedGemms(300, 3, 0.05));
  const ErrorSummary errors = Errors(PredictorOf(*profile), SimulatedGemms(2000, 4, 0.05));
  EXPECT_GE(errors.below_p90, 0.84);
  EXPECT_LE(errors.below_p90, 0.97);
  EXPECT_GE(errors.below_p99, 0.96);
}

TEST(FitProfileTest, EqualRowsAndSeedGiveEqualBytes) {
  const auto rows = SimulatedGemms(120, 5, 0.02);
  const auto once = FitProfile(Spec(), rows, {.seed = 9}), again = FitProfile(Spec(), rows, {.seed = 9});
  EXPECT_EQ(SerializeProfile(*once), SerializeProfile(*again));
}

TEST(FitProfileTest, ScalingAllTimesScalesThePredictions) {
  const Predictor plain = PredictorOf(FitProfile(Spec(), SimulatedGemms(200, 6, 0.01)).value());
  const Predictor scaled = PredictorOf(FitProfile(Spec(), SimulatedGemms(200, 6, 0.01, 1.5)).value());
  for (const Measurement& row : SimulatedGemms(200, 7, 0)) {
    const double ratio =
        scaled.EstimateKernel(row.kernel)->latency_us.p50 / plain.EstimateKernel(row.kernel)->latency_us.p50;
    ASSERT_NEAR(ratio, 1.5, 0.15);
  }
}

TEST(FitProfileTest, AFewBadRowsDoLittleHarm) {
  auto rows = SimulatedGemms(300, 8, 0.02);
  const double clean = Errors(PredictorOf(FitProfile(Spec(), rows).value()), SimulatedGemms(1000, 9, 0.02)).mape;
  for (std::size_t i = 0; i < rows.size(); i += 33) rows[i].latency_us *= i % 2 == 0 ? 3 : 0.4;
  const double dirty = Errors(PredictorOf(FitProfile(Spec(), rows).value()), SimulatedGemms(1000, 9, 0.02)).mape;
  EXPECT_LT(dirty, clean * 1.5 + 0.01);
}

TEST(FitProfileTest, AHandfulOfRowsStillFit) {
  for (std::size_t n : {1, 2, 5, 12}) {
    const auto profile = FitProfile(Spec(), SimulatedGemms(n, 10, 0.02));
    ASSERT_TRUE(profile.ok()) << n << ": " << profile.status();
    EXPECT_LT(Errors(PredictorOf(*profile), SimulatedGemms(300, 11, 0.02)).mape, 0.6) << n;
  }
}

TEST(FitProfileTest, ManyRowsAreTrainedOnDirectly) {
  const auto profile = FitProfile(Spec(), SimulatedGemms(4000, 12, 0.02));
  EXPECT_LT(Errors(PredictorOf(*profile), SimulatedGemms(1000, 13, 0.02)).mape, 0.03);
}

TEST(FitProfileTest, TablesNeverMix) {
  auto rows = SimulatedGemms(40, 14, 0.01);
  for (std::size_t i = 0; i < 20; ++i) rows[i].timing = Timing::kKernel;
  const auto profile = FitProfile(Spec(), rows);
  ASSERT_EQ(profile->tables.size(), 2u);
  EXPECT_EQ(profile->tables[0].rows, 20);
}

TEST(FitProfileTest, NoRowsAreRefused) {
  const auto profile = FitProfile(Spec(), {});
  EXPECT_EQ(profile.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(profile.status()), HasSubstr("measure some kernels first"));
}

TEST(FitProfileTest, FarOutsideTheHullStaysNearTheRoofline) {
  const Predictor predictor = PredictorOf(FitProfile(Spec(), SimulatedGemms(250, 15, 0.02)).value());
  const Kernel huge{.name = "", .dtype = DType::kBf16, .work = Gemm{.m = 819200, .n = 819200, .k = 8192}, .launch = {}};
  const double ratio = predictor.EstimateKernel(huge)->latency_us.p50 /
                       predictor.EstimateKernel(huge, {.estimator = "roofline"})->latency_us.p50;
  EXPECT_GT(ratio, 0.95);
  EXPECT_LT(ratio, 3);
}

// Vector ops differ by name: each label has parameters of its own.
TEST(FitProfileTest, LabelsHaveParametersOfTheirOwn) {
  std::vector<Measurement> rows;
  std::mt19937 random(16);
  for (int i = 0; i < 200; ++i) {
    Measurement row;
    row.device = "h100-sxm";
    row.kernel.dtype = DType::kFp32;
    const bool slow = i % 2 == 0;
    const Vector work{.op = slow ? "softmax" : "relu", .rows = 1 << (random() % 14), .cols = 64 << (random() % 7)};
    row.kernel.work = work;
    const double bytes = 8.0 * static_cast<double>(work.rows * work.cols);
    row.latency_us = 4 + bytes / 3350e3 * (slow ? 4.0 : 1.2);
    rows.push_back(row);
  }
  const Predictor predictor = PredictorOf(FitProfile(Spec(), rows).value());
  EXPECT_LT(Errors(predictor, rows).mape, 0.03);
  Kernel unseen = rows[0].kernel;
  std::get<Vector>(unseen.work).op = "sigmoid";
  EXPECT_EQ(predictor.EstimateKernel(unseen)->provenance, Provenance::kExtrapolated);
}

// The library takes one of two kernels, for reasons that shapes do not tell.
std::vector<Measurement> WithKernels(std::vector<Measurement> rows, unsigned seed) {
  std::mt19937 random(seed);
  for (Measurement& row : rows) {
    const bool slow = random() % 2 == 0;
    const Tile tile = slow ? Tile{64, 64} : Tile{128, 128};
    row.kernel.launch.kernel = slow ? "gemm_64x64_sliced" : "gemm_128x128";
    row.kernel.launch.grid_x = static_cast<std::int64_t>(TilesOf(*ProductOf(row.kernel), tile));
    row.kernel.launch.grid_y = row.kernel.launch.grid_z = 1;
    row.kernel.launch.block_x = 256;
    if (slow) row.latency_us *= 1.6;
  }
  return rows;
}

TEST(FitProfileTest, ALaunchThatIsKnownSaysWhatTheShapeDoesNot) {
  const Predictor predictor = PredictorOf(FitProfile(Spec(), WithKernels(SimulatedGemms(300, 41, 0.02), 1)).value());
  std::vector<Measurement> asked = WithKernels(SimulatedGemms(500, 42, 0.02), 2);
  EXPECT_EQ(predictor.EstimateKernel(asked[0].kernel)->estimator, "launch");
  Estimate batched;
  ASSERT_TRUE(predictor.EstimateKernels({&asked[0].kernel, 1}, {}, {&batched, 1}).ok());
  EXPECT_EQ(batched.latency_us.p50, predictor.EstimateKernel(asked[0].kernel)->latency_us.p50);
  const ErrorSummary known = Errors(predictor, asked);
  for (Measurement& row : asked) row.kernel.launch = {};
  const ErrorSummary unknown = Errors(predictor, asked);
  EXPECT_LT(known.mape, 0.06);
  EXPECT_GT(unknown.mape, 0.15);
  EXPECT_GE(known.below_p90, 0.84);
  EXPECT_LE(known.below_p90, 0.97);
}

// Two kernels in whole waves of two blocks an SM, each with an efficiency of its own
// that changes with the depth, which no configuration says.
std::vector<Measurement> InWaves(std::size_t count, unsigned seed) {
  const Machine<double> machine = MachineOf(Spec(), {.op = Op::kGemm, .dtype = DType::kFp32});
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 0.01);
  std::vector<Measurement> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const bool small = random() % 2 == 0;
    const Tile tile = small ? Tile{64, 64} : Tile{128, 128};
    const auto dim = [&](int limit) { return static_cast<std::int64_t>(1 + random() % limit); };
    Measurement row{.device = Spec().slug, .timing = Timing::kKernel};
    row.kernel = {.dtype = DType::kFp32, .work = Gemm{.m = dim(6000), .n = dim(6000), .k = dim(4000)}};
    const auto& work = std::get<Gemm>(row.kernel.work);
    row.kernel.launch = {.kernel = small ? "sgemm_64x64" : "sgemm_128x128",
                         .grid_x = static_cast<std::int64_t>(TilesOf(*ProductOf(row.kernel), tile)),
                         .grid_y = 1,
                         .grid_z = 1,
                         .block_x = 256};
    const double waves = std::ceil(static_cast<double>(row.kernel.launch.grid_x) / (2 * machine.sms));
    const double block = 2.0 * tile.m * tile.n * static_cast<double>(work.k) * machine.sms / machine.peak;
    const double by_depth = 0.4 * std::sin(std::log2(static_cast<double>(work.k)));
    row.latency_us = (4 + 2 * waves * block / (small ? 0.5 : 0.8)) * std::exp(by_depth + noise(random));
    rows.push_back(row);
  }
  return rows;
}

TEST(FitProfileTest, KernelsInWavesAreLearntFromAFewRowsOfEach) {
  const Predictor predictor = PredictorOf(FitProfile(Spec(), InWaves(100, 51)).value());
  const auto asked = InWaves(400, 52);
  EXPECT_EQ(predictor.EstimateKernel(asked[0].kernel)->estimator, "launch");
  EXPECT_LT(Errors(predictor, asked).mape, 0.11);
}

TEST(FitProfileTest, ALaunchThatSaysNothingIsNotLearnt) {
  std::vector<Measurement> rows = SimulatedGemms(300, 43, 0.02);
  for (Measurement& row : rows) row.kernel.launch.kernel = "gemm_128x128";  // no grid
  EXPECT_TRUE(FitProfile(Spec(), rows)->tables[0].launch_residual.weights.empty());
}

TEST(WaveFitTest, RecoversAKernelOfKnownWaves) {
  const TableKey key{.op = Op::kGemm, .dtype = DType::kFp32, .timing = Timing::kKernel};
  const Machine<double> machine = MachineOf(Spec(), key);
  std::mt19937 random(17);
  std::normal_distribution<double> noise(0, 0.01);
  std::vector<Measurement> rows;
  for (int i = 0; i < 60; ++i) {
    Measurement row;
    row.device = "h100-sxm";
    row.kernel.dtype = DType::kFp32;
    row.kernel.work = Gemm{.m = 64 + static_cast<std::int64_t>(random() % 4000),
                           .n = 64 + static_cast<std::int64_t>(random() % 4000),
                           .k = 256};
    row.kernel.launch.kernel = "sgemm_128x64_nn";
    const auto r = WaveRegressors(row.kernel, machine, {128, 64}, 2).value();
    row.latency_us = (3 + 1.3 * r[2] + 0.8 * r[4]) * std::exp(noise(random));
    rows.push_back(row);
  }
  std::vector<const Measurement*> pointers;
  for (const Measurement& row : rows) pointers.push_back(&row);
  const auto configs = FitKernelConfigs(MakeTableData(key, pointers, [&](const Measurement&) { return machine; }));
  ASSERT_EQ(configs.size(), 1u);
  EXPECT_EQ(configs[0].resident_blocks, 2);
  EXPECT_LT(configs[0].error_ln, 0.015F);
  EXPECT_NEAR(configs[0].coefficients[0], 3, 0.5);
}

TEST(WaveFitTest, KernelsWithFewRowsHaveNoConfiguration) {
  auto rows = SimulatedGemms(7, 18, 0.01);
  for (Measurement& row : rows) row.kernel.launch.kernel = "sgemm_128x64";
  EXPECT_TRUE(FitProfile(Spec(), rows)->tables[0].kernel_configs.empty());
}

TEST(IntervalOfTest, IsConformalAndOrdered) {
  std::vector<HeldOut> errors;
  for (int i = 0; i < 99; ++i) errors.push_back({i / 100.0});
  const Interval interval = IntervalOf(errors, 0.01);
  EXPECT_NEAR(interval.p90_ln, 0.89, 1e-6);  // the 90th of 99
  EXPECT_NEAR(interval.p99_ln, std::max(0.98, 0.89 * 2.3263 / 1.2816), 1e-3);
  for (std::size_t n : {0, 1, 3, 8}) {
    const Interval few = IntervalOf(std::vector<HeldOut>(n, {0.1}), 0.01);
    EXPECT_GT(few.p90_ln, 0);
    EXPECT_GE(few.p99_ln, few.p90_ln);
  }
}

TEST(IntervalOfTest, ComparesRowsByTheirSpread) {
  // One row in ten is of a hard place, where the interval is five times wider.
  std::vector<HeldOut> errors;
  for (int i = 0; i < 1000; ++i) errors.push_back(i % 10 == 0 ? HeldOut{0.5, 5} : HeldOut{0.1, 1});
  EXPECT_NEAR(IntervalOf(errors, 0.01).p90_ln, 0.1, 1e-6);
}

TEST(FitProfileTest, IntervalsAreWiderWhereErrorsAreLarger) {
  std::mt19937 random(31);
  std::normal_distribution<double> normal(0, 0.1);
  const auto hard = [](const Measurement& row) { return std::get<Gemm>(row.kernel.work).m > 500; };
  const auto spoil = [&](std::vector<Measurement> rows) {
    for (Measurement& row : rows) {
      if (hard(row)) row.latency_us *= std::exp(normal(random));
    }
    return rows;
  };
  const std::vector<Measurement> rows = spoil(SimulatedGemms(400, 32, 0.02));
  const Predictor predictor = PredictorOf(*FitProfile(Spec(), rows));
  std::vector<Measurement> of_hard, of_easy;
  for (const Measurement& row : spoil(SimulatedGemms(1500, 33, 0.02))) (hard(row) ? of_hard : of_easy).push_back(row);
  const ErrorSummary hard_errors = Errors(predictor, of_hard), easy_errors = Errors(predictor, of_easy);
  EXPECT_GT(hard_errors.p90_width, 2 * easy_errors.p90_width);
  EXPECT_NEAR(hard_errors.below_p90, 0.9, 0.1);
  EXPECT_NEAR(easy_errors.below_p90, 0.9, 0.1);
}

// As graphs ask, which do not know which kernel will run.
TEST(FitProfileTest, AnswersWithoutALabelAsWellAsWithOne) {
  std::vector<Measurement> rows = SimulatedGemms(500, 41, 0.02);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::get<Gemm>(rows[i].kernel.work).layer = i % 2 == 0 ? Gemm::Layer::kLinear : Gemm::Layer::kBmm;
  }
  const Predictor predictor = PredictorOf(*FitProfile(Spec(), rows));
  EXPECT_LT(Errors(predictor, SimulatedGemms(1000, 42, 0.02)).mape, 0.05);
}

TEST(FitProfileTest, AFewBadRowsRaiseTheErrorByAtMostATenth) {
  std::vector<Measurement> rows = SimulatedGemms(300, 21, 0.03);
  const std::vector<Measurement> others = SimulatedGemms(1000, 22, 0.03);
  const double clean = Errors(PredictorOf(*FitProfile(Spec(), rows)), others).mape;
  std::mt19937 random(23);
  std::uniform_real_distribution<double> factor(0.3, 3);
  for (std::size_t i = 0; i < rows.size(); i += 33) rows[i].latency_us *= factor(random);
  EXPECT_LT(Errors(PredictorOf(*FitProfile(Spec(), rows)), others).mape, 1.1 * clean);
}

TEST(FitProfileTest, CollectivesLearnFromOtherTypesButRememberTheirOwn) {
  std::vector<Measurement> rows;
  for (int i = 0; i < 60; ++i) {
    Measurement row;
    row.device = "h100-sxm";
    row.timing = Timing::kKernel;
    // Each type has every other size.
    row.kernel.dtype = i % 2 == 0 ? DType::kFp16 : DType::kInt8;
    const auto bytes = static_cast<std::int64_t>(1024 * std::pow(1.3, i / 1.5));
    row.kernel.work = Collective{.op = "all_reduce", .backend = "nccl", .bytes = bytes, .ranks = 8};
    row.latency_us = (10 + static_cast<double>(bytes) / 3e5) * (i % 2 == 0 ? 1 : 1.05);
    rows.push_back(row);
  }
  const auto profile = FitProfile(Spec(), rows);
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->tables.size(), 2u);
  for (const Table& table : profile->tables) {
    EXPECT_EQ(table.rows, 30);
    EXPECT_EQ(table.measured_hash.size(), 30u);
  }
  const Predictor predictor = PredictorOf(*profile);
  for (Measurement& row : rows) {
    row.kernel.dtype = row.kernel.dtype == DType::kFp16 ? DType::kInt8 : DType::kFp16;
    const auto estimate = predictor.EstimateKernel(row.kernel, {.timing = row.timing});
    EXPECT_NE(estimate->provenance, Provenance::kMeasured);
    const double truth = row.latency_us * (row.kernel.dtype == DType::kInt8 ? 1.05 : 1 / 1.05);
    EXPECT_NEAR(estimate->latency_us.p50 / truth, 1, 0.08);
  }
}

TEST(FitTransferTest, AnswersForADeviceThatWasLeftOut) {
  // Two devices made of the same parameters, a third predicted from them.
  const TableKey key{.op = Op::kVector, .dtype = DType::kFp32, .timing = Timing::kEager};
  std::mt19937 random(19);
  std::vector<Measurement> rows;
  std::vector<double> theta;
  for (const ParamSpec& param : VectorForm::kParams) theta.push_back(param.start);
  const auto simulate = [&](const std::string& slug) {
    const Machine<double> machine = MachineOf(Catalogue::BuiltIn().Get(slug).value(), key);
    for (int i = 0; i < 150; ++i) {
      const Vector work{.op = "add",
                        .rows = 1 + static_cast<std::int64_t>(random() % 20000),
                        .cols = 64 + static_cast<std::int64_t>(random() % 2000)};
      const double dims[] = {static_cast<double>(work.rows), static_cast<double>(work.cols), 1};
      Measurement row;
      row.device = slug;
      row.timing = Timing::kEager;
      row.kernel.work = work;
      row.latency_us = FormLatencyUs(key.op, key.phase, machine, theta, dims);
      rows.push_back(row);
    }
  };
  simulate("t4");
  simulate("a100-pcie-40gb");
  const auto spec_of = [](const std::string& slug) { return Catalogue::BuiltIn().Get(slug); };
  const auto transfer = FitTransferProfile(rows, spec_of);
  ASSERT_TRUE(transfer.ok()) << transfer.status();
  EXPECT_TRUE(transfer->transfer);
  rows.clear();
  simulate("v100-pcie-32gb");
  const Predictor unseen(Catalogue::BuiltIn().Get("v100-pcie-32gb").value(), nullptr,
                         std::make_shared<const CompiledProfile>(ParseProfile(SerializeProfile(*transfer)).value()));
  EXPECT_LT(Errors(unseen, rows).mape, 0.05);
  EXPECT_EQ(unseen.EstimateKernel(rows[0].kernel)->provenance, Provenance::kTransferred);
}

// Two kernels of one op whose times are lines: in bytes, and in FLOPs.
std::vector<Measurement> Lines() {
  std::vector<Measurement> rows;
  for (std::int64_t size = 1; size <= 40; ++size) {
    for (const char* name : {"by_bytes", "by_flops"}) {
      Measurement row;
      row.device = "h100-sxm";
      row.timing = Timing::kKernel;
      // FLOPs and bytes do not grow alike.
      row.kernel = {.name = "",
                    .dtype = DType::kFp32,
                    .work = Gemm{.m = 64 * size, .n = 64, .k = 64 + 64 * (size % 5)},
                    .launch = {.kernel = name}};
      const Counts counts = CountsOf(row.kernel);
      row.latency_us = name == std::string("by_bytes") ? 5 + 1e-5 * static_cast<double>(counts.bytes_read.value())
                                                       : 9 + 2e-6 * static_cast<double>(counts.flops.value());
      rows.push_back(row);
    }
  }
  return rows;
}

TEST(FitProfileTest, TheLadderHasALineForEachKernelAndOneForEachLayer) {
  const std::vector<Measurement> rows = Lines();
  const auto profile = FitProfile(Spec(), rows);
  ASSERT_TRUE(profile.ok()) << profile.status();
  const Predictor predictor = PredictorOf(*profile);
  EXPECT_LT(Errors(predictor, rows, "kernel-wise").mape, 1e-6);
  EXPECT_GT(Errors(predictor, rows, "layer-wise").mape, 0.05);
  Kernel unnamed = rows[0].kernel;
  unnamed.launch = {};
  const auto estimate = predictor.EstimateKernel(unnamed, {.timing = Timing::kKernel, .estimator = "kernel-wise"});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->estimator, "kernel-wise");
  EXPECT_EQ(estimate->provenance, Provenance::kInterpolated);
}

TEST(FitProfileTest, WhatTheLadderLacksIsSaidWithWhatThereIs) {
  const auto profile = FitProfile(Spec(), Lines());
  ASSERT_TRUE(profile.ok()) << profile.status();
  const Predictor predictor = PredictorOf(*profile);
  const Kernel other{
      .name = "", .dtype = DType::kFp32, .work = Vector{.op = "add", .rows = 8, .cols = 8}, .launch = {}};
  const auto missing = predictor.EstimateKernel(other, {.estimator = "kernel-wise"});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(missing.status()), HasSubstr("there are default, family, launch, kernel-aware, roofline"));
  const auto unknown = predictor.EstimateKernel(other, {.estimator = "crystal-ball"});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(unknown.status()),
              HasSubstr("kernel-wise, layer-wise, end-to-end, whole-model, inter-gpu, roofline"));
}

}  // namespace
}  // namespace gpueta
