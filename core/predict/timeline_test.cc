#include "core/predict/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/predict/compose.h"
#include "core/testing/chain_graph.h"

namespace gpueta {
namespace {

Kernel Product(std::int64_t m) { return {.name = "n", .dtype = DType::kFp32, .work = Gemm{.m = m, .n = 8, .k = 8}}; }

GraphPart Part(std::int64_t m, std::int64_t count, double us) {
  GraphPart part{.kernel = Product(m), .count = count, .estimate = {}};
  part.estimate.latency_us = {us, 1.2 * us, 1.5 * us};
  return part;
}

// Two short kernels around a long one, twice.
std::vector<Kernel> Kernels() { return {Product(1), Product(2), Product(1), Product(1), Product(2), Product(1)}; }
GraphEstimate Estimated(const ExecutionModel& execution, double correction = 1) {
  GraphEstimate estimate = ComposeParts({Part(1, 4, 2), Part(2, 2, 40)}, execution);
  estimate.correction = correction;
  estimate.latency_us.p50 *= correction;
  return estimate;
}

class TimelineTest : public ::testing::TestWithParam<std::pair<ExecutionModel, double>> {};

TEST_P(TimelineTest, EndsAtTheMedianWithNothingAtOnceOrBeforeItWasIssued) {
  const auto [execution, correction] = GetParam();
  const GraphEstimate estimate = Estimated(execution, correction);
  const auto timeline = TimelineOf(ChainOf(Kernels()), Kernels(), estimate);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ(timeline->events.size(), 6U);
  EXPECT_NEAR(timeline->end_us, estimate.latency_us.p50, 1e-6);
  double end = 0;
  double issued = 0;
  double busy = 0;
  for (const TimelineEvent& event : timeline->events) {
    issued += timeline->issue_us;
    EXPECT_GE(event.start_us, end - 1e-9);
    EXPECT_GE(event.start_us, issued - 1e-9);
    end = event.start_us + event.duration_us;
    busy += event.duration_us;
  }
  EXPECT_NEAR(end, estimate.latency_us.p50, 1e-6);
  EXPECT_NEAR(busy, 88 * correction, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Executions, TimelineTest,
                         ::testing::Values(std::pair(ExecutionModel{}, 1.0),
                                           std::pair(ExecutionModel{.gap_us = 1}, 1.0),
                                           std::pair(ExecutionModel{.host_issue_us = 6}, 1.0),
                                           std::pair(ExecutionModel{.host_issue_us = 300}, 1.0),
                                           std::pair(ExecutionModel{.host_issue_us = 6}, 1.25)));

TEST(TimelineOfTest, StreamsHaveLanesOfTheirOwn) {
  const std::vector<Kernel> kernels = {Product(1), Product(2), Product(1), Product(1)};
  Graph graph = ChainOf(kernels);
  graph.nodes[1].stream = DeviceStream::kCommunication;
  graph.nodes[2].inputs = {0};
  graph.nodes[3].inputs = {1};
  const auto estimate = ComposeGraph(graph, kernels, {}, [](const Kernel& kernel) -> absl::StatusOr<Estimate> {
    Estimate e;
    const double us = std::get<Gemm>(kernel.work).m == 2 ? 40 : 2;
    e.latency_us = {us, us, us};
    return e;
  });
  EXPECT_DOUBLE_EQ(estimate->latency_us.p50, 44);
  const auto timeline = TimelineOf(graph, kernels, *estimate);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_DOUBLE_EQ(timeline->end_us, 44);
  EXPECT_EQ(timeline->events[1].stream, DeviceStream::kCommunication);
  EXPECT_EQ(LaneName(*timeline, timeline->events[1]), "stream, communication");
  EXPECT_DOUBLE_EQ(timeline->events[1].start_us, timeline->events[2].start_us);
}

TEST(TimelineOfTest, APipelineIsDrawnByItsPasses) {
  const std::vector<Kernel> kernels = {Product(1), Product(1), Product(2), Product(2)};
  Graph graph = ChainOf(kernels);
  graph.nodes[1].stage = graph.nodes[2].stage = 1;
  graph.nodes[2].turn = graph.nodes[3].turn = Turn::kBackward;
  graph.microbatches = 3;
  const auto estimate = ComposeGraph(graph, kernels, {}, [](const Kernel& kernel) -> absl::StatusOr<Estimate> {
    Estimate e;
    const auto us = static_cast<double>(10 * std::get<Gemm>(kernel.work).m);
    e.latency_us = {us, us, us};
    return e;
  });
  const auto timeline = TimelineOf(graph, kernels, *estimate);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ(timeline->events.size(), 2U * 2 * 3);
  EXPECT_DOUBLE_EQ(timeline->end_us, (3 + 2 - 1) * 30);
  EXPECT_EQ(timeline->events.front().node, -1);
  EXPECT_EQ(NameOfPass(timeline->events.back()), "backward of microbatch 2");
  EXPECT_EQ(LaneName(*timeline, timeline->events.back()), "stage 1");
}

TEST(TimelineOfTest, KernelsOfAnotherGraphAreRefused) {
  EXPECT_FALSE(TimelineOf(ChainOf({Product(7)}), {Product(7)}, Estimated({})).ok());
}

TEST(TimelineOfTest, AGraphWithoutKernelsHasAnEmptyOne) {
  const auto timeline = TimelineOf({}, {}, ComposeParts({}, {}));
  ASSERT_TRUE(timeline.ok());
  EXPECT_EQ(timeline->end_us, 0);
}

}  // namespace
}  // namespace gpueta
