#include "calibration/control/emulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "calibration/control/testing_simulated_host.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_util::HiddenDevice;
using testing_util::SimulatedClock;
using testing_util::SimulatedHost;

// Products of several shapes with what stands between them.
std::vector<Kernel> Model(std::mt19937& generator) {
  std::uniform_int_distribution<std::int64_t> eighths(8, 512);
  std::vector<Kernel> kernels;
  for (int layer = 0; layer < 12; ++layer) {
    kernels.push_back(
        {.dtype = DType::kFp32,
         .work = Gemm{.m = 8 * eighths(generator), .n = 8 * eighths(generator), .k = 8 * eighths(generator)}});
    kernels.push_back(
        {.dtype = DType::kFp32,
         .work = Vector{.op = "add", .rows = 8 * eighths(generator), .cols = 8 * eighths(generator), .operands = 2}});
  }
  return kernels;
}

double TrueUs(const HiddenDevice& device, const std::vector<Kernel>& kernels) {
  double us = 0;
  for (const Kernel& kernel : kernels) us += device.LatencyUs(kernel);
  return us;
}

DeviceRates Known(const HiddenDevice& device) { return {.spec = device.Sheet(), .launch_us = device.launch_us}; }

HiddenDevice Target(double compute, double bandwidth, double launch = 1) {
  HiddenDevice target{.slug = "target"};
  target.tflops *= compute;
  target.bandwidth_gb_s *= bandwidth;
  target.launch_us *= launch;
  return target;
}

TEST(EmulateTest, PredictsWeakerDevicesOfTheSameMake) {
  std::mt19937 generator(5);
  std::uniform_real_distribution<double> share(0.3, 1);
  int below_p90 = 0;
  double errors = 0;
  constexpr int kTargets = 40;
  for (int i = 0; i < kTargets; ++i) {
    SimulatedHost host({}, SimulatedHost::FullSpace());
    const std::vector<Kernel> model = Model(generator);
    const HiddenDevice target = Target(share(generator), share(generator));
    const auto emulation = Emulate(host, Known(target), model, {}, SimulatedClock());
    ASSERT_TRUE(emulation.ok()) << emulation.status();
    EXPECT_TRUE(host.restored());
    const Quantiles& predicted = emulation->estimate.latency_us;
    const double truth = TrueUs(target, model);
    const double error = std::abs(std::log(predicted.p50 / truth));
    EXPECT_LT(error, 0.1) << emulation->configuration_text;
    errors += error;
    below_p90 += truth <= predicted.p90 ? 1 : 0;
    EXPECT_LT(predicted.p90, 1.2 * predicted.p50);
    EXPECT_LE(predicted.p90, predicted.p99);
  }
  EXPECT_LT(errors / kTargets, 0.03);
  EXPECT_GE(below_p90, 0.9 * kTargets);
}

TEST(EmulateTest, CorrectsForWhatTheHostCannotReach) {
  // Without contention, bandwidth stays.
  ControlSpace space = SimulatedHost::FullSpace();
  space.range(Knob::kContention).reset();
  std::mt19937 generator(9);
  double corrected = 0;
  double uncorrected = 0;
  for (int i = 0; i < 10; ++i) {
    SimulatedHost host({}, space);
    const std::vector<Kernel> model = Model(generator);
    const HiddenDevice target = Target(1, 0.5);
    const auto emulation = Emulate(host, Known(target), model, {}, SimulatedClock());
    ASSERT_TRUE(emulation.ok()) << emulation.status();
    const double truth = TrueUs(target, model);
    corrected += std::abs(std::log(emulation->estimate.latency_us.p50 / truth));
    uncorrected += std::abs(std::log(emulation->measured_us / truth));
    EXPECT_GT(emulation->neighbours, 0U);
    EXPECT_THAT(emulation->estimate.warnings, Not(IsEmpty()));
    EXPECT_LE(truth, emulation->estimate.latency_us.p99);
  }
  EXPECT_LT(corrected, uncorrected / 2);
}

TEST(EmulateTest, ADifferentMakeAndUnknownRatesWidenTheInterval) {
  std::mt19937 generator(2);
  const std::vector<Kernel> model = Model(generator);
  const auto width = [&](const DeviceRates& target) {
    SimulatedHost host({}, SimulatedHost::FullSpace());
    const Quantiles q = Emulate(host, target, model, {}, SimulatedClock())->estimate.latency_us;
    return q.p90 / q.p50;
  };
  const DeviceRates same = Known(Target(0.5, 0.5));
  DeviceRates other = same;
  other.spec.name = "Another";
  DeviceRates unknown = same;
  unknown.launch_us = 0;
  EXPECT_GT(width(other), width(same) + 0.1);
  EXPECT_GT(width(unknown), width(same));
}

TEST(EmulateTest, ContentionOfOneKindIsDoubted) {
  std::mt19937 generator(2);
  const std::vector<Kernel> model = Model(generator);
  const auto width = [&](double bandwidth) {
    SimulatedHost host({}, SimulatedHost::FullSpace());
    const auto emulation = Emulate(host, Known(Target(1 - 1.0 / 16, bandwidth)), model, {}, SimulatedClock());
    EXPECT_EQ(At(emulation->configuration, Knob::kContention) > 0, bandwidth < 0.9) << emulation->configuration_text;
    return emulation->estimate.latency_us.p90 / emulation->estimate.latency_us.p50;
  };
  EXPECT_GT(width(0.5), width(1) + 0.02);
}

TEST(EmulateTest, EveryKernelIsEmulatedAndTheyAddUp) {
  std::mt19937 generator(4);
  std::vector<Kernel> model = Model(generator);
  model.insert(model.end(), model.begin(), model.begin() + 6);  // repeated layers
  SimulatedHost host({}, SimulatedHost::FullSpace());
  const auto emulation = Emulate(host, Known(Target(0.6, 0.7)), model, {}, SimulatedClock());
  ASSERT_TRUE(emulation.ok()) << emulation.status();
  std::int64_t count = 0;
  double us = 0;
  for (const GraphPart& part : emulation->estimate.parts) {
    EXPECT_EQ(part.estimate.provenance, Provenance::kEmulated);
    count += part.count;
    us += static_cast<double>(part.count) * part.estimate.latency_us.p50;
  }
  EXPECT_EQ(count, static_cast<std::int64_t>(model.size()));
  EXPECT_NEAR(us / emulation->estimate.latency_us.p50, 1, 0.02);
  EXPECT_EQ(emulation->estimate.provenance.at(Provenance::kEmulated), 1);
}

TEST(EmulateTest, RestoresTheHostWhicheverStepFails) {
  std::mt19937 generator(4);
  const std::vector<Kernel> model = Model(generator);
  int last = 0;
  for (int step = 0; step < 50; ++step) {
    SimulatedHost host({}, SimulatedHost::FullSpace());
    host.fails_at = step;
    const auto emulation = Emulate(host, Known(Target(0.6, 0.7)), model, {}, SimulatedClock());
    EXPECT_TRUE(host.restored()) << step;
    if (emulation.ok()) break;
    EXPECT_THAT(std::string(emulation.status().message()), HasSubstr("taken away"));
    last = step;
  }
  EXPECT_GT(last, 1);
}

TEST(EmulateTest, RatesThatChangeWhileTheModelRunsAreTold) {
  std::mt19937 generator(4);
  const std::vector<Kernel> model = Model(generator);
  SimulatedHost host({}, SimulatedHost::FullSpace());
  host.slower_from = 1;  // the host itself is probed, and is what is wanted
  const auto emulation = Emulate(host, Known(Target(1, 1)), model, {}, SimulatedClock());
  ASSERT_TRUE(emulation.ok()) << emulation.status();
  EXPECT_THAT(emulation->estimate.warnings, ::testing::Contains(HasSubstr("memory changed by -50%")));
}

TEST(EmulateTest, ADisturbedHostIsToldAndDoubted) {
  std::mt19937 generator(4);
  const std::vector<Kernel> model = Model(generator);
  SimulatedHost quiet({}, SimulatedHost::FullSpace());
  SimulatedHost busy({}, SimulatedHost::FullSpace());
  busy.disturbance = "another process was there";
  const DeviceRates target = Known(Target(0.6, 0.7));
  const auto a = Emulate(quiet, target, model, {}, SimulatedClock());
  const auto b = Emulate(busy, target, model, {}, SimulatedClock());
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_THAT(b->estimate.warnings, ::testing::Contains(busy.disturbance));
  EXPECT_GT(b->estimate.latency_us.p90, a->estimate.latency_us.p90);
}

}  // namespace
}  // namespace gpueta
