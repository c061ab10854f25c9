#include "core/ops/forms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/ops/launch_floor.h"

namespace gpueta {
namespace {

Machine<double> Hopper() {
  return {.sms = 132,
          .peak = 989.4e6,
          .bandwidth = 3350e3,
          .l2 = 50e6,
          .a_bytes = 2,
          .w_bytes = 2,
          .out_bytes = 2,
          .kv_bytes = 2};
}

TEST(FormMathTest, Log2IsRightToItsStatedError) {
  for (double x = 1e-30; x < 1e30; x *= 1.37)
    EXPECT_NEAR(math::Log2(static_cast<float>(x)), std::log2(x), 2.4e-6 + 2e-7 * std::abs(std::log2(x)));
}

TEST(FormMathTest, Exp2IsRightToItsStatedError) {
  for (double x = -100; x < 100; x += 0.173) EXPECT_NEAR(math::Exp2(static_cast<float>(x)) / std::exp2(x), 1, 1e-5);
}

TEST(FormMathTest, Exp2NeverGivesADenormal) {
  EXPECT_GE(math::Exp2(-1e9F), std::exp2(-126.0F));
  EXPECT_LE(math::Exp2(1e9F), std::exp2(126.1F));
}

TEST(FormMathTest, CeilDivIsExactForSmAndTileCounts) {
  for (int divisor : {20, 28, 56, 58, 64, 80, 108, 128, 132, 148}) {
    for (int x = 1; x < 20000; ++x) {
      const int expected = (x + divisor - 1) / divisor;
      ASSERT_EQ(math::CeilDiv(static_cast<float>(x), static_cast<float>(divisor)), static_cast<float>(expected))
          << x << "/" << divisor;
    }
  }
}

TEST(FormMathTest, SmoothMaxLiesBetweenMaxAndSum) {
  for (double p : {1.1, 2.0, 5.0}) {
    const double m = math::SmoothMax(p, 3.0, 4.0, 1.0);
    EXPECT_GE(m, 4.0);
    EXPECT_LE(m, 8.0);
  }
}

struct Family {
  const char* name;
  Op op;
  Attention::Phase phase;
  std::vector<std::pair<double, double>> ranges;  // of each dim, log-uniform; equal bounds: constant
};

const std::vector<Family>& Families() {
  static const std::vector<Family> all = {
      {"gemm", Op::kGemm, Attention::Phase::kPrefill, {{1, 64}, {1, 16384}, {8, 16384}, {8, 16384}}},
      {"conv2d",
       Op::kConv2d,
       Attention::Phase::kPrefill,
       {{1, 64},
        {8, 512},
        {8, 256},
        {8, 256},
        {8, 512},
        {3, 3},
        {3, 3},
        {1, 2},
        {1, 2},
        {1, 1},
        {1, 1},
        {1, 1},
        {1, 1},
        {1, 1},
        {0, 0},
        {0, 0}}},
      {"prefill",
       Op::kAttention,
       Attention::Phase::kPrefill,
       {{1, 64}, {16, 4096}, {4096, 4096}, {8, 64}, {1, 8}, {64, 256}, {1, 1}}},
      {"decode",
       Op::kAttention,
       Attention::Phase::kDecode,
       {{1, 256}, {1, 1}, {16, 65536}, {8, 64}, {1, 8}, {64, 256}, {0, 0}}},
      {"moe",
       Op::kMoe,
       Attention::Phase::kPrefill,
       {{1, 8192}, {1024, 8192}, {512, 16384}, {1, 8}, {8, 256}, {1, 4}, {1, 8}}},
      {"vector", Op::kVector, Attention::Phase::kPrefill, {{1, 65536}, {16, 16384}, {1, 2}}},
      {"collective", Op::kCollective, Attention::Phase::kPrefill, {{256, 1e9}, {2, 16}}},
      {"custom", Op::kCustom, Attention::Phase::kPrefill, {{1e3, 1e12}, {1e3, 1e9}}},
  };
  return all;
}

std::vector<double> DrawDims(const Family& family, std::mt19937_64& random) {
  std::vector<double> dims;
  for (const auto& [low, high] : family.ranges) {
    if (low == high) {
      dims.push_back(low);
      continue;
    }
    std::uniform_real_distribution<double> uniform(std::log(low), std::log(high + 0.49));
    dims.push_back(std::max(low, std::round(std::exp(uniform(random)))));
  }
  return dims;
}

std::vector<double> StartOf(const Family& family) {
  std::vector<double> theta;
  for (const ParamSpec& param : FormInfoOf(family.op, family.phase).params) theta.push_back(param.start);
  return theta;
}

class EveryForm : public ::testing::TestWithParam<Family> {};

TEST_P(EveryForm, StartsLieInsideTheirBounds) {
  for (const ParamSpec& param : FormInfoOf(GetParam().op, GetParam().phase).params) {
    EXPECT_LT(param.low, param.start) << param.name;
    EXPECT_LT(param.start, param.high) << param.name;
  }
}

TEST_P(EveryForm, IsFiniteAndAboveItsFixedCost) {
  std::mt19937_64 random(1);
  const std::vector<double> theta = StartOf(GetParam());
  for (int i = 0; i < 2000; ++i) {
    const std::vector<double> dims = DrawDims(GetParam(), random);
    const double us = FormLatencyUs(GetParam().op, GetParam().phase, Hopper(), theta, dims);
    ASSERT_TRUE(std::isfinite(us));
    ASSERT_GT(us, 0);
    std::vector<double> features(FormInfoOf(GetParam().op, GetParam().phase).features.size());
    FormFeatures(GetParam().op, GetParam().phase, Hopper(), dims, features);
    for (double f : features) ASSERT_TRUE(std::isfinite(f));
  }
}

TEST_P(EveryForm, FloatAgreesWithDouble) {
  std::mt19937_64 random(2);
  const std::vector<double> theta = StartOf(GetParam());
  const std::vector<float> theta_f(theta.begin(), theta.end());
  const Machine<float> machine = Hopper().As<float>();
  for (int i = 0; i < 2000; ++i) {
    const std::vector<double> dims = DrawDims(GetParam(), random);
    const std::vector<float> dims_f(dims.begin(), dims.end());
    const double exact = FormLatencyUs(GetParam().op, GetParam().phase, Hopper(), theta, dims);
    const float fast = VisitForm(GetParam().op, GetParam().phase, [&]<class Form>() {
      return Form::template LatencyUs<float>(machine, theta_f.data(), dims_f.data());
    });
    ASSERT_NEAR(fast / exact, 1, 3e-5);
  }
}

// Twice the device is never slower.
TEST_P(EveryForm, AFasterDeviceIsNotSlower) {
  std::mt19937_64 random(3);
  const std::vector<double> theta = StartOf(GetParam());
  Machine<double> fast = Hopper();
  fast.peak *= 2;
  fast.bandwidth *= 2;
  fast = fast.As<double>();  // with what follows from them
  for (int i = 0; i < 500; ++i) {
    const std::vector<double> dims = DrawDims(GetParam(), random);
    ASSERT_LE(FormLatencyUs(GetParam().op, GetParam().phase, fast, theta, dims),
              FormLatencyUs(GetParam().op, GetParam().phase, Hopper(), theta, dims) * (1 + 1e-9));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EveryForm, ::testing::ValuesIn(Families()),
                         [](const auto& instance) { return instance.param.name; });

TEST(GemmFormTest, GrowsWithEachDimButForWaveSteps) {
  std::mt19937_64 random(4);
  const std::vector<double> theta = StartOf(Families()[0]);
  for (int i = 0; i < 500; ++i) {
    std::vector<double> dims = DrawDims(Families()[0], random);
    const double before = FormLatencyUs(Op::kGemm, Attention::Phase::kPrefill, Hopper(), theta, dims);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      std::vector<double> larger = dims;
      larger[d] *= 2;
      ASSERT_GE(FormLatencyUs(Op::kGemm, Attention::Phase::kPrefill, Hopper(), theta, larger), before * 0.97);
    }
  }
}

TEST(ConvertTimingTest, SameKindIsUnchanged) {
  EXPECT_EQ(ConvertTiming(12.5, Timing::kGraph, Timing::kGraph, 30.0, 2.0), 12.5);
}

TEST(ConvertTimingTest, TheEagerFloorComesOff) {
  EXPECT_DOUBLE_EQ(ConvertTiming(130.0, Timing::kEager, Timing::kKernel, 30.0, kKernelFloorUs), 102.0);
  EXPECT_DOUBLE_EQ(ConvertTiming(30.0, Timing::kEager, Timing::kKernel, 30.0, kKernelFloorUs), 2.0);
}

TEST(ConvertTimingTest, AShortKernelHidesInTheFloorAndALongOneLosesTheLeadAlone) {
  // What small and large additions take on the V100, by their bytes.
  const double floor = 32.4, lead = 16.9, efficiency = 1.08;
  for (const double work : {0.2, 1.7, 6.2, 12.5, 25.5, 49.0, 99.6, 197.2}) {
    const double kernel = std::max(efficiency * work, kKernelFloorUs);
    const double eager = std::max(floor, lead + kernel);
    EXPECT_NEAR(ConvertTiming(eager, Timing::kEager, Timing::kKernel, floor, HiddenUs(work, floor)), kernel, 1.1)
        << work;
  }
}

TEST(ConvertTimingTest, IsMonotoneAndPositive) {
  for (Timing from : kAllTimings) {
    for (Timing to : kAllTimings) {
      double last = 0;
      for (double us = 0.1; us < 1e5; us *= 1.1) {
        const double converted = ConvertTiming(us, from, to, 25.0, HiddenUs(5.0, 25.0));
        ASSERT_GT(converted, 0);
        ASSERT_GE(converted, last * (1 - 1e-12)) << Name(from) << " to " << Name(to) << " at " << us;
        last = converted;
      }
    }
  }
}

}  // namespace
}  // namespace gpueta
