#include "calibration/backends/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "calibration/backends/testing_fake_backend.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using testing::HasSubstr;

using testing_util::FakeBackend;
using testing_util::VectorOfRows;

const std::vector<Kernel> kModel = {VectorOfRows(1000), VectorOfRows(3000), VectorOfRows(500)};

Sample Unchanged(Sample sample, std::size_t) { return sample; }

TEST(MeasureKernelTest, FillsInTheMeasurement) {
  FakeBackend backend(Unchanged);
  const auto measured = MeasureKernel(backend, VectorOfRows(120), {}, backend.Clock());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->measurement.device, "fake");
  EXPECT_EQ(measured->measurement.source, "fake-library");
  EXPECT_EQ(measured->measurement.timing, Timing::kGraph);
  EXPECT_EQ(measured->measurement.latency_us, 120);
  EXPECT_EQ(measured->measurement.kernel.work, VectorOfRows(120).work);
}

TEST(MeasureKernelTest, NamesTheKernelThatCannotRun) {
  FakeBackend backend(Unchanged);
  const Kernel gemm{.work = Gemm{.m = 5, .n = 6, .k = 7}};
  const absl::Status status = MeasureKernel(backend, gemm, {}, backend.Clock()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(status), HasSubstr("gemm fp32"));
}

TEST(MeasureGraphTest, GivesEachKernelAndTheTotal) {
  FakeBackend backend(Unchanged);
  const auto measured = MeasureGraph(backend, kModel, {}, backend.Clock());
  ASSERT_TRUE(measured.ok()) << measured.status();
  ASSERT_EQ(measured->kernels.size(), 3U);
  EXPECT_EQ(measured->kernels[1].latency_us, 3000);
  EXPECT_EQ(measured->total.latency_us, 4500);
  EXPECT_FALSE(measured->total.disturbed);
  EXPECT_EQ(measured->timing, Timing::kGraph);
  EXPECT_EQ(backend.runs(), GraphPolicy().warm_up_runs + GraphPolicy().runs);
}

TEST(MeasureGraphTest, RepeatsDisturbedRuns) {
  FakeBackend backend([](Sample sample, std::size_t run) {
    return run % 2 == 0 ? Sample{5 * sample.latency_us, Condition::kInterrupted} : sample;
  });
  const auto measured = MeasureGraph(backend, kModel, {}, backend.Clock());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->total.latency_us, 4500);
  EXPECT_FALSE(measured->total.disturbed);
  EXPECT_GE(measured->total.samples, GraphPolicy().runs);
  EXPECT_GE(measured->total.discarded, GraphPolicy().runs - 1);
}

TEST(MeasureGraphTest, SumsKernelMediansWhereEveryRunIsInterrupted) {
  // In every run one of the three kernels is interrupted, in turn.
  std::size_t kernel = 0;
  FakeBackend backend([&kernel](Sample sample, std::size_t run) {
    return kernel++ % 3 == run % 3 ? Sample{9 * sample.latency_us, Condition::kInterrupted} : sample;
  });
  const auto measured = MeasureGraph(backend, kModel, {}, backend.Clock());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->total.latency_us, 4500);
  EXPECT_FALSE(measured->total.disturbed);
  EXPECT_GE(measured->total.samples, GraphPolicy().runs);
  EXPECT_LT(backend.Clock()(), GraphPolicy().time_budget_us);
}

TEST(MeasureGraphTest, IsDisturbedWhenOneKernelAlwaysIs) {
  FakeBackend backend([](Sample sample, std::size_t) {
    return sample.latency_us == 500 ? Sample{600, Condition::kInterrupted} : sample;
  });
  const auto measured = MeasureGraph(backend, kModel, {.time_budget_us = 1e6}, backend.Clock());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->total.latency_us, 4600);
  EXPECT_TRUE(measured->total.disturbed);
}

TEST(MeasureGraphTest, WaitsForASlowedDeviceAndSaysSo) {
  FakeBackend backend([](Sample sample, std::size_t) { return Sample{2 * sample.latency_us, Condition::kSlowed}; });
  const auto measured = MeasureGraph(backend, kModel, {.time_budget_us = 1e6}, backend.Clock());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->total.latency_us, 9000);
  EXPECT_TRUE(measured->total.slowed);
  EXPECT_FALSE(measured->total.disturbed);
  EXPECT_GT(backend.Clock()(), 1e6);
}

TEST(MeasureGraphTest, StopsAtTheTimeBudget) {
  FakeBackend backend([](Sample sample, std::size_t) { return Sample{sample.latency_us, Condition::kInterrupted}; });
  const auto measured = MeasureGraph(backend, kModel, {.time_budget_us = 1e6}, backend.Clock());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_TRUE(measured->total.disturbed);
  EXPECT_GT(backend.Clock()(), 1e6);
  EXPECT_LT(backend.Clock()(), 1.3e6);
}

// A convolution and its gradients are of one shape.
TEST(MeanOfOccurrencesTest, GradientsAreNotTakenForTheForwardKernel) {
  const Kernel forward{
      .work = Conv2d{
          .batch = 2, .in_channels = 8, .height = 8, .width = 8, .out_channels = 8, .kernel_h = 3, .kernel_w = 3}};
  Kernel input = forward;
  input.launch.kernel = "cudnn_dgrad";
  Kernel weights = forward;
  weights.launch.kernel = "cudnn_wgrad";
  const std::vector<Kernel> kernels = {forward, forward, weights, input};
  MeasuredGraph graph;
  for (const double us : {10.0, 12.0, 30.0, 20.0}) graph.kernels.push_back({.latency_us = us});
  std::map<std::string, double> latencies;
  for (const MeasuredKernel& mean : MeanOfOccurrences(FakeBackend(Unchanged), kernels, graph)) {
    latencies[mean.measurement.kernel.launch.kernel] = mean.measurement.latency_us;
  }
  EXPECT_THAT(latencies, testing::ElementsAre(testing::Pair("", 11), testing::Pair("cudnn_dgrad", 20),
                                              testing::Pair("cudnn_wgrad", 30)));
}

TEST(MeasureGraphTest, RejectsAnEmptyList) {
  FakeBackend backend(Unchanged);
  EXPECT_EQ(MeasureGraph(backend, {}, {}, backend.Clock()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpueta
