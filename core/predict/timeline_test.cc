#include "core/predict/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/predict/compose.h"

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
  const auto timeline = TimelineOf(Kernels(), estimate);
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

TEST(TimelineOfTest, KernelsOfAnotherGraphAreRefused) {
  EXPECT_FALSE(TimelineOf(std::vector{Product(7)}, Estimated({})).ok());
}

TEST(TimelineOfTest, AGraphWithoutKernelsHasAnEmptyOne) {
  const auto timeline = TimelineOf({}, ComposeParts({}, {}));
  ASSERT_TRUE(timeline.ok());
  EXPECT_EQ(timeline->end_us, 0);
}

}  // namespace
}  // namespace gpueta
