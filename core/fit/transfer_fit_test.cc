// The transfer profile, and fitting from it with few rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/device/catalogue.h"
#include "core/device/machine_of.h"
#include "core/device/relatedness.h"
#include "core/feedback/error_summary.h"
#include "core/fit/exact_model.h"
#include "core/fit/family_fit.h"
#include "core/fit/fit.h"
#include "core/fit/transferred_fit.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"
#include "core/profile/transfer.h"

namespace gpueta {
namespace {

constexpr TableKey kKey = {.op = Op::kGemm, .dtype = DType::kFp32, .timing = Timing::kEager};

DeviceSpec Spec(const std::string& slug) { return Catalogue::BuiltIn().Get(slug).value(); }

// Products on a device that follows its data sheet but for a factor on what
// computing takes.
std::vector<Measurement> Simulated(const DeviceSpec& spec, double compute, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 0.03);
  const Machine<double> machine = MachineOf(spec, kKey);
  const DeviceScale scale = Deviating(ScaleOf(spec, kKey), std::vector<double>{std::log(compute), 0, 0});
  std::vector<double> theta;
  for (const ParamSpec& param : GemmForm::kParams) theta.push_back(param.start * ScaleFactor(scale, param.scales));
  theta[0] = 20;
  std::vector<Measurement> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const auto dim = [&] { return std::int64_t{1} << (4 + random() % 9); };
    Measurement row;
    row.device = spec.slug;
    row.timing = kKey.timing;
    row.kernel.dtype = kKey.dtype;
    const Gemm work{.m = dim() + 3, .n = dim(), .k = dim()};
    row.kernel.work = work;
    const double dims[] = {1, static_cast<double>(work.m), static_cast<double>(work.n), static_cast<double>(work.k)};
    row.latency_us = FormLatencyUs(kKey.op, kKey.phase, machine, theta, dims) * std::exp(noise(random));
    rows.push_back(row);
  }
  return rows;
}

std::vector<Measurement> PoolRows() {
  std::vector<Measurement> rows;
  unsigned seed = 1;
  for (const auto& [slug, compute] : std::vector<std::pair<std::string, double>>{
           {"p100-pcie-16gb", 1.2}, {"v100-pcie-32gb", 0.9}, {"t4", 1.0}, {"a100-pcie-40gb", 1.05}}) {
    const auto some = Simulated(Spec(slug), compute, 400, seed++);
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

const Profile& Pool() {
  static const Profile pool =
      FitTransferProfile(PoolRows(), [](const std::string& slug) { return Catalogue::BuiltIn().Get(slug); }).value();
  return pool;
}

std::shared_ptr<const CompiledProfile> Compiled(const Profile& profile) {
  return std::make_shared<const CompiledProfile>(ParseProfile(SerializeProfile(profile)).value());
}

Predictor Unmeasured(const DeviceSpec& spec) { return Predictor(spec, nullptr, Compiled(Pool())); }

ErrorSummary Errors(const Predictor& predictor, const std::vector<Measurement>& rows) {
  std::vector<PredictedAndObserved> pairs;
  for (const Measurement& row : rows)
    pairs.push_back({predictor.EstimateKernel(row.kernel, {.timing = row.timing})->latency_us, row.latency_us});
  return Summarise(pairs);
}

Predictor WithRows(const DeviceSpec& spec, const std::vector<Measurement>& rows) {
  const auto profile = FitProfile(spec, rows, {.base = &Pool()});
  EXPECT_TRUE(profile.ok()) << profile.status();
  return Predictor(spec, Compiled(*profile), Compiled(Pool()));
}

TEST(TransferTest, ADeviceNobodyMeasuredIsPredictedFromItsDataSheet) {
  const ErrorSummary errors = Errors(Unmeasured(Spec("rtx-2080-ti")), Simulated(Spec("rtx-2080-ti"), 1, 300, 90));
  EXPECT_LT(errors.mape, 0.15);
  EXPECT_GE(errors.below_p90, 0.8);
}

TEST(TransferTest, EqualRowsAndSeedGiveEqualBytes) {
  const auto again =
      FitTransferProfile(PoolRows(), [](const std::string& slug) { return Catalogue::BuiltIn().Get(slug); });
  EXPECT_EQ(SerializeProfile(Pool()), SerializeProfile(*again));
}

TEST(TransferTest, ACardBetweenTwoOthersTakesATimeBetweenTheirs) {
  DeviceSpec slow = Spec("a100-pcie-40gb"), fast = slow;
  fast.slug = "faster";
  fast.sm_count = 144;
  fast.fp32_tflops = slow.fp32_tflops * 144 / 108;
  fast.mem_bandwidth_gb_s *= 1.5;
  fast.l2_mb *= 1.3;
  DeviceSpec between = slow;
  between.slug = "between";
  between.sm_count = 126;
  between.fp32_tflops = (slow.fp32_tflops + fast.fp32_tflops) / 2;
  between.mem_bandwidth_gb_s = (slow.mem_bandwidth_gb_s + fast.mem_bandwidth_gb_s) / 2;
  between.l2_mb = (slow.l2_mb + fast.l2_mb) / 2;
  const Predictor of_slow = Unmeasured(slow), of_between = Unmeasured(between), of_fast = Unmeasured(fast);
  for (const std::int64_t size : {2048, 4096, 8192}) {
    const Kernel kernel{.name = "", .dtype = DType::kFp32, .work = Gemm{.m = size, .n = size, .k = size}, .launch = {}};
    const double us = of_between.EstimateKernel(kernel)->latency_us.p50;
    EXPECT_LT(us, of_slow.EstimateKernel(kernel)->latency_us.p50) << size;
    EXPECT_GT(us, of_fast.EstimateKernel(kernel)->latency_us.p50) << size;
  }
}

TEST(TransferTest, ARelativeSaysMoreAndLeavesLessOpen) {
  const Table& table = Pool().tables.front();
  const Inherited near = InheritedBy(table, Pool().pool, Spec("a100-pcie-80gb"));
  const Inherited far = InheritedBy(table, Pool().pool, Spec("b200-sxm"));
  EXPECT_LT(near.variance, 0.5);
  EXPECT_GT(far.variance, near.variance);
  ASSERT_FALSE(near.relatives.empty());
  EXPECT_EQ(near.relatives.front().device, "a100-pcie-40gb");
  EXPECT_GT(near.relatives.front().weight, 0.6);
}

TEST(TransferTest, ADeviceThatIsExcludedIsNoRelative) {
  const std::vector<std::string> without = {"a100-pcie-40gb"};
  for (const Relative& relative :
       InheritedBy(Pool().tables.front(), Pool().pool, Spec("a100-pcie-80gb"), without).relatives)
    EXPECT_NE(relative.device, "a100-pcie-40gb");
}

TEST(TransferTest, IntervalsWidenWithTheDistanceFromWhatIsKnown) {
  const Kernel kernel{.name = "", .dtype = DType::kFp32, .work = Gemm{.m = 512, .n = 512, .k = 512}, .launch = {}};
  const auto width = [&](const char* slug) {
    const Quantiles us = Unmeasured(Spec(slug)).EstimateKernel(kernel)->latency_us;
    return us.p90 / us.p50;
  };
  EXPECT_GT(width("b200-sxm"), width("a100-pcie-80gb"));
}

TEST(TransferTest, MoreRowsNeverMakeItMuchWorse) {
  // Twice as slow at computing as its data sheet says.
  const DeviceSpec spec = Spec("rtx-2080-ti");
  const auto asked = Simulated(spec, 2, 300, 91);
  double before = Errors(Unmeasured(spec), asked).mape;
  EXPECT_GT(before, 0.2);
  for (const std::size_t shots : {3, 10, 20}) {
    const double error = Errors(WithRows(spec, Simulated(spec, 2, shots, 92)), asked).mape;
    EXPECT_LE(error, 1.1 * before) << shots;
    before = error;
  }
  EXPECT_LT(before, 0.12);
}

TEST(TransferTest, AFewRowsOfADeviceThatIsAsExpectedDoNoHarm) {
  const DeviceSpec spec = Spec("a100-pcie-80gb");
  const auto asked = Simulated(spec, 1.05, 300, 191);
  const double before = Errors(Unmeasured(spec), asked).mape;
  constexpr int kDraws = 20;
  double sum = 0;
  int within = 0;
  for (unsigned draw = 0; draw < kDraws; ++draw) {
    const double error = Errors(WithRows(spec, Simulated(spec, 1.05, 10, 200 + draw)), asked).mape;
    sum += error;
    if (error <= 1.1 * before) ++within;
  }
  EXPECT_LE(sum / kDraws, before);
  EXPECT_GE(within, 19);
}

// What no form says: a library that is slow at narrow products, by turns along the depth.
std::vector<Measurement> WithQuirk(std::vector<Measurement> rows, double size) {
  for (Measurement& row : rows) {
    const auto& work = std::get<Gemm>(row.kernel.work);
    const double turns = std::sin(2 * std::log2(static_cast<double>(work.k)) + std::log2(static_cast<double>(work.n)));
    row.latency_us *= std::exp(size * turns);
  }
  return rows;
}

TEST(TransferTest, WhereMostIsLearntFromOwnRowsOthersHelpOrAreDropped) {
  const DeviceSpec spec = Spec("a100-pcie-80gb");
  std::vector<Measurement> of_others;
  unsigned seed = 300;
  for (const char* slug : {"v100-pcie-32gb", "t4", "a100-pcie-40gb"}) {
    const auto some = WithQuirk(Simulated(Spec(slug), 1, 400, seed++), 0.4);
    of_others.insert(of_others.end(), some.begin(), some.end());
  }
  const Profile pool =
      FitTransferProfile(of_others, [](const std::string& slug) { return Catalogue::BuiltIn().Get(slug); }).value();
  const auto data_of = [&](const std::vector<Measurement>& rows) {
    std::vector<const Measurement*> pointers;
    for (const Measurement& row : rows) pointers.push_back(&row);
    return MakeTableData(kKey, pointers, [&](const Measurement&) { return MachineOf(spec, kKey); });
  };
  const auto error = [&](double quirk, bool with_others) {
    const auto rows = WithQuirk(Simulated(spec, 1, 120, 310), quirk);
    const auto asked = WithQuirk(Simulated(spec, 1, 400, 311), quirk);
    const TableData data = data_of(rows), unseen = data_of(asked);
    std::vector<std::unique_ptr<Prior>> others;
    if (with_others) others.push_back(FitPooledPrior(data, pool.tables[0], pool.pool, spec, {}));
    const ExactModel model = ExactModel::Fit(data, FitFamily(data), 0, std::move(others));
    return (model.Ln(unseen) - unseen.ln_us).cwiseAbs().mean();
  };
  EXPECT_LT(error(0.4, true), 0.8 * error(0.4, false));
  EXPECT_LT(error(-0.4, true), 1.1 * error(-0.4, false));  // the opposite of what others do
}

TEST(TransferTest, OneRowIsEnoughToStart) {
  const DeviceSpec spec = Spec("rtx-2080-ti");
  const Predictor predictor = WithRows(spec, Simulated(spec, 1, 1, 93));
  EXPECT_LT(Errors(predictor, Simulated(spec, 1, 200, 94)).mape, 0.2);
}

TEST(TransferTest, WhatRestsOnOtherDevicesIsCalledTransferred) {
  const DeviceSpec spec = Spec("rtx-2080-ti");
  const auto shots = Simulated(spec, 1, 10, 95);
  const Predictor predictor = WithRows(spec, shots);
  EXPECT_EQ(predictor.EstimateKernel(shots[0].kernel, {.timing = kKey.timing})->provenance, Provenance::kMeasured);
  EXPECT_EQ(predictor.EstimateKernel(Simulated(spec, 1, 5, 96)[3].kernel, {.timing = kKey.timing})->provenance,
            Provenance::kTransferred);
}

TEST(TransferTest, ConfigurationsAreOfTheDevicesOwnRows) {
  const DeviceSpec spec = Spec("rtx-2080-ti");
  auto rows = Simulated(spec, 1, 40, 98);
  for (Measurement& row : rows) {
    const auto& work = std::get<Gemm>(row.kernel.work);
    row.kernel.launch = {
        .kernel = "turing_sgemm_128x64_nn", .grid_x = (work.m + 127) / 128, .grid_y = (work.n + 63) / 64};
  }
  const Profile profile = FitProfile(spec, rows, {.base = &Pool()}).value();
  ASSERT_EQ(profile.tables[0].kernel_configs.size(), 1U);
  EXPECT_EQ(profile.tables[0].kernel_configs[0].rows, 40);
}

TEST(TransferTest, TheInterGpuFormAnswersByName) {
  const DeviceSpec spec = Spec("rtx-2080-ti");
  const Kernel kernel = Simulated(spec, 1, 1, 97)[0].kernel;
  const auto estimate = Unmeasured(spec).EstimateKernel(kernel, {.timing = kKey.timing, .estimator = "inter-gpu"});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->estimator, "inter-gpu");
  const auto without = Predictor(spec, nullptr, nullptr).EstimateKernel(kernel, {.estimator = "inter-gpu"});
  EXPECT_EQ(without.status().code(), absl::StatusCode::kFailedPrecondition);
}

// A gradient has the shape of its forward convolution and takes longer.
TEST(TransferTest, GradientsArePooledWithNothing) {
  std::vector<Measurement> forward;
  for (const char* device : {"t4", "a100-pcie-40gb", "v100-pcie-32gb"}) {
    for (std::int64_t i = 0; i < 40; ++i) {
      Measurement row{.device = device, .timing = Timing::kGraph};
      row.kernel = {.dtype = DType::kFp16,
                    .work = Conv2d{.batch = 1 + i % 8,
                                   .in_channels = 64,
                                   .height = 14 + i,
                                   .width = 14,
                                   .out_channels = 64 * (1 + i % 3),
                                   .kernel_h = 3,
                                   .kernel_w = 3}};
      row.latency_us = 3 + static_cast<double>(CountsOf(row.kernel).flops.value()) / 3e7;
      forward.push_back(row);
    }
  }
  std::vector<Measurement> both = forward;
  for (Measurement row : forward) {
    row.latency_us *= 3;
    row.kernel.launch.kernel = "cudnn_dgrad";
    both.push_back(row);
  }
  const auto spec_of = [](const std::string& slug) { return Catalogue::BuiltIn().Get(slug); };
  const auto profile = FitTransferProfile(both, spec_of, {});
  const auto alone = FitTransferProfile(forward, spec_of, {});
  ASSERT_TRUE(profile.ok() && alone.ok()) << profile.status() << alone.status();
  ASSERT_EQ(profile->tables.size(), 1U);
  EXPECT_EQ(profile->tables[0].rows, alone->tables[0].rows);
  EXPECT_EQ(profile->sources[0].rows, static_cast<std::int64_t>(forward.size()));
  EXPECT_THAT(FitTransferProfile(std::span(both).subspan(forward.size()), spec_of, {}).status().message(),
              ::testing::HasSubstr("gradients"));
}

}  // namespace
}  // namespace gpueta
