#include "calibration/control/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "calibration/control/testing_simulated_host.h"

namespace gpueta {
namespace {

using ::testing::DoubleNear;

Kernel Product(std::int64_t size) { return {.dtype = DType::kFp32, .work = Gemm{.m = size, .n = size, .k = size}}; }
Kernel Addition(std::int64_t rows) {
  return {.dtype = DType::kFp32, .work = Vector{.op = "add", .rows = rows, .cols = 1024, .operands = 2}};
}

DeviceSpec Sheet(double tflops, double bandwidth_gb_s) {
  return {.slug = "sheet", .mem_bandwidth_gb_s = bandwidth_gb_s, .l2_mb = 10, .fp32_tflops = tflops};
}

double WeightOf(const std::vector<ClassGoal>& goals, Limit limit) {
  double weight = 0;
  for (const ClassGoal& goal : goals) weight += goal.kernels.limit == limit ? goal.weight : 0;
  return weight;
}

TEST(DeviceRatesTest, SharesOfAKernelAddUpAndFollowWhatLimitsIt) {
  const DeviceRates device{.spec = Sheet(20, 1000), .launch_us = 2};
  for (const Kernel& kernel : {Product(4096), Addition(65536), Addition(1)}) {
    const ByLimit shares = ShareOfEachLimit(kernel, device);
    EXPECT_THAT(std::accumulate(shares.begin(), shares.end(), 0.0), DoubleNear(1, 1e-9));
  }
  EXPECT_GT(ShareOfEachLimit(Product(4096), device)[0], 0.9);
  EXPECT_GT(ShareOfEachLimit(Addition(65536), device)[1], 0.9);
  EXPECT_GT(ShareOfEachLimit(Addition(1), device)[3], 0.9);
}

TEST(DeviceRatesTest, ClassesWeighAsMuchAsTheyLimitTheModel) {
  const DeviceRates target{.spec = Sheet(20, 1000), .launch_us = 2};
  const std::vector<Kernel> products = {Product(4096)};
  const std::vector<Kernel> additions = {Addition(65536)};
  EXPECT_GT(WeightOf(GoalsOf(products, target, nullptr, {}), Limit::kCompute), 0.9);
  EXPECT_GT(WeightOf(GoalsOf(additions, target, nullptr, {}), Limit::kMemory), 0.9);
}

TEST(DeviceRatesTest, DataSheetsAreScaledByHowFarTheHostIsFromItsOwn) {
  const DeviceSpec host_sheet = Sheet(40, 2000);
  const DeviceRates host{.spec = Sheet(30, 1900)};
  const std::vector<Kernel> kernels = {Product(512)};
  const auto rate_of = [&](Limit limit) {
    const std::vector<ClassGoal> goals = GoalsOf(kernels, {.spec = Sheet(20, 1000)}, &host_sheet, host);
    const auto goal = std::ranges::find(goals, KernelClass{limit}, &ClassGoal::kernels);
    return goal != goals.end() && goal->log_rate.has_value() ? std::exp(*goal->log_rate) : 0;
  };
  EXPECT_THAT(rate_of(Limit::kCompute), DoubleNear(15, 1e-9));
  EXPECT_THAT(rate_of(Limit::kMemory), DoubleNear(950, 1e-9));
  EXPECT_EQ(rate_of(Limit::kLaunch), 0);
}

TEST(DeviceRatesTest, DistanceIsZeroAtTheGoalAndLeavesUnknownClassesOut) {
  const DeviceRates target{.spec = Sheet(20, 1000)};
  const std::vector<Kernel> kernels = {Product(512), Addition(512)};
  const std::vector<ClassGoal> goals = GoalsOf(kernels, target, nullptr, {});
  EXPECT_EQ(Distance(goals, {.spec = Sheet(20, 1000), .launch_us = 7}), 0);
  const double twice = Distance(goals, {.spec = Sheet(40, 2000)});
  EXPECT_GT(twice, 0.6);
  EXPECT_LT(twice, std::log(2) + 1e-9);
}

TEST(DeviceRatesTest, MeasuresWhatABackendDescribesAndItsLaunch) {
  testing_util::SimulatedHost host({.launch_us = 3}, {});
  Backend& backend = **host.Apply({});
  const auto measured = MeasureRates(backend, testing_util::SimulatedClock());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->spec.fp32_tflops, testing_util::HiddenDevice().tflops);
  EXPECT_THAT(measured->launch_us, DoubleNear(3, 0.1));
}

}  // namespace
}  // namespace gpueta
