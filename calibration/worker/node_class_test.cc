#include "calibration/worker/node_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/fit/fit.h"

namespace gpueta {
namespace {

double TrueUs(const Kernel& kernel) { return 3 + 1.4 * static_cast<double>(CountsOf(kernel).flops.value()) / 0.2e6; }

// A node that measures every kernel with 1 % noise, and is so many times as slow as
// others in products.
NodeMeasurements Node(const std::string& name, double slow = 1, int kernels = 60) {
  std::mt19937_64 random(std::hash<std::string>()(name));
  std::normal_distribution<double> noise(0, 0.01);
  NodeMeasurements node{.node = name};
  for (int i = 0; i < kernels; ++i) {
    Measurement row{.device = "cpu-test", .timing = Timing::kGraph};
    row.kernel = {.dtype = DType::kFp32,
                  .work = Gemm{.m = 8 + 3 * (i % 37), .n = 64 * (1 + i % 11), .k = 64 * (1 + i % 7)}};
    row.latency_us = TrueUs(row.kernel) * slow * std::exp(noise(random));
    node.rows.push_back(row);
    row.kernel.work = Vector{.op = "add", .rows = 10 + i, .cols = 64, .operands = 2};
    row.latency_us = (5 + i) * std::exp(noise(random));
    node.rows.push_back(row);
  }
  return node;
}

int Outliers(const std::vector<NodeDeviation>& deviations, const std::string& node) {
  return static_cast<int>(
      std::ranges::count_if(deviations, [&](const NodeDeviation& d) { return d.outlier && d.node == node; }));
}

TEST(NodeClassTest, HealthyNodesDifferByNoiseOnly) {
  const std::vector<NodeMeasurements> nodes = {Node("a"), Node("b"), Node("c"), Node("d")};
  const NodeClass result = ClassOf(nodes);
  EXPECT_EQ(result.deviations.size(), 8U);
  for (const NodeDeviation& deviation : result.deviations) {
    EXPECT_FALSE(deviation.outlier) << Describe(deviation);
    EXPECT_NEAR(deviation.ratio, 1, 0.01);
  }
  EXPECT_EQ(result.rows.size(), nodes[0].rows.size());
}

TEST(NodeClassTest, ASlowNodeIsFoundInItsTableAndLeftOutOfTheClass) {
  const std::vector<NodeMeasurements> nodes = {Node("a"), Node("b"), Node("slow", 1.12), Node("d"), Node("e")};
  const NodeClass result = ClassOf(nodes);
  EXPECT_EQ(Outliers(result.deviations, "slow"), 1);
  for (const NodeDeviation& deviation : result.deviations) {
    if (!deviation.outlier) continue;
    EXPECT_EQ(deviation.key.op, Op::kGemm);
    EXPECT_NEAR(deviation.ratio, 1.12, 0.01);
    EXPECT_THAT(Describe(deviation), testing::HasSubstr("slow is 12 % slower than its class in gemm fp32 graph"));
  }
  for (const Measurement& row : result.rows) {
    if (row.kernel.op() != Op::kGemm) continue;
    EXPECT_NEAR(row.latency_us / TrueUs(row.kernel), 1, 0.03);
  }
}

TEST(NodeClassTest, WildRowsOfOneNodeDoNotMoveTheClass) {
  std::vector<NodeMeasurements> nodes = {Node("a"), Node("b"), Node("c")};
  for (std::size_t i = 0; i < 12; ++i) nodes[1].rows[2 * i].latency_us *= 50;
  const NodeClass result = ClassOf(nodes);
  for (const Measurement& row : result.rows) {
    if (row.kernel.op() != Op::kGemm) continue;
    EXPECT_NEAR(row.latency_us / TrueUs(row.kernel), 1, 0.05);
  }
}

TEST(NodeClassTest, OfTwoNodesNeitherIsTheOutlier) {
  const std::vector<NodeMeasurements> nodes = {Node("a"), Node("b", 2)};
  for (const NodeDeviation& deviation : ClassOf(nodes).deviations) EXPECT_FALSE(deviation.outlier);
}

TEST(NodeClassTest, AFewKernelsAreNoEvidence) {
  const std::vector<NodeMeasurements> nodes = {Node("a", 1, 5), Node("b", 2, 5), Node("c", 1, 5)};
  for (const NodeDeviation& deviation : ClassOf(nodes).deviations) EXPECT_FALSE(deviation.outlier);
}

DeviceSpec TestSpec() {
  return {.slug = "cpu-test",
          .architecture = "CPU",
          .sm_count = 2,
          .boost_clock_mhz = 3000,
          .mem_bandwidth_gb_s = 20,
          .l2_mb = 32,
          .fp32_tflops = 0.2};
}

TEST(NodeClassTest, ANodeIsComparedWithItsClassesProfile) {
  const Profile profile = FitProfile(TestSpec(), Node("class").rows).value();
  for (const NodeDeviation& d : DeviationsFrom(profile, Node("fine"))) EXPECT_FALSE(d.outlier) << Describe(d);
  const std::vector<NodeDeviation> slow = DeviationsFrom(profile, Node("slow", 1.2));
  EXPECT_EQ(Outliers(slow, "slow"), 1);
}

// They have the shapes of forward convolutions, and take three times as long.
TEST(NodeClassTest, GradientsAreNotJudgedByForwardTables) {
  const auto convolutions = [](const std::string& name, const std::string& kernel, double us) {
    NodeMeasurements node{.node = name};
    for (std::int64_t i = 0; i < 40; ++i) {
      Measurement row{.device = "cpu-test", .timing = Timing::kGraph};
      row.kernel = {.dtype = DType::kFp32,
                    .work = Conv2d{.batch = 1 + i % 8,
                                   .in_channels = 64,
                                   .height = 14 + i,
                                   .width = 14,
                                   .out_channels = 64,
                                   .kernel_h = 3,
                                   .kernel_w = 3},
                    .launch = {.kernel = kernel}};
      row.latency_us = us * (3 + static_cast<double>(CountsOf(row.kernel).flops.value()) / 0.2e6);
      node.rows.push_back(row);
    }
    return node;
  };
  const Profile profile = FitProfile(TestSpec(), convolutions("class", "", 1).rows).value();
  EXPECT_EQ(Outliers(DeviationsFrom(profile, convolutions("slow", "", 3)), "slow"), 1);
  EXPECT_THAT(DeviationsFrom(profile, convolutions("trains", "cudnn_wgrad", 3)), testing::IsEmpty());
  const std::vector<NodeMeasurements> nodes = {convolutions("a", "cudnn_wgrad", 3), convolutions("b", "cudnn_wgrad", 3),
                                               convolutions("c", "cudnn_wgrad", 9)};
  EXPECT_THAT(ClassOf(nodes).deviations, testing::IsEmpty());
}

}  // namespace
}  // namespace gpueta
