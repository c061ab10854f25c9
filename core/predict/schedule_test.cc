#include "core/predict/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/profile/whole_model.h"

namespace gpueta {
namespace {

struct Timed {
  Graph graph;
  NodeTimes times;

  int Add(double us, DeviceStream stream, Turn turn, int stage, std::vector<int> inputs, double host_us = 0) {
    GraphNode node;
    node.kernel.work = Gemm{.m = 8, .n = 8, .k = 8};
    node.stream = stream;
    node.turn = turn;
    node.stage = stage;
    node.inputs = std::move(inputs);
    graph.nodes.push_back(std::move(node));
    times.us.push_back(us);
    times.host_us.push_back(host_us);
    return static_cast<int>(graph.nodes.size()) - 1;
  }
  // What the critical path takes, node by node.
  double PathUs(const Schedule& schedule) const {
    double us = 0;
    for (std::size_t i = 0; i < times.us.size(); ++i) us += static_cast<double>(schedule.on_path[i]) * times.us[i];
    return us;
  }
};

constexpr auto kCompute = DeviceStream::kCompute;
constexpr auto kCommunication = DeviceStream::kCommunication;

TEST(ScheduleOfTest, OneStreamAddsUp) {
  Timed timed;
  for (const double us : {3.0, 4.0, 5.0}) timed.Add(us, kCompute, Turn::kForward, 0, {});
  const Schedule schedule = ScheduleOf(timed.graph, timed.times);
  EXPECT_DOUBLE_EQ(schedule.end_us, 12);
  EXPECT_EQ(schedule.on_path, (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_DOUBLE_EQ(schedule.host_share, 1);
}

TEST(ScheduleOfTest, StreamsRunBesideEachOtherAsFarAsInputsAllow) {
  Timed timed;
  const int first = timed.Add(10, kCompute, Turn::kForward, 0, {});
  const int exchange = timed.Add(25, kCommunication, Turn::kForward, 0, {first});
  timed.Add(20, kCompute, Turn::kForward, 0, {first});
  timed.Add(5, kCompute, Turn::kForward, 0, {exchange});
  const Schedule schedule = ScheduleOf(timed.graph, timed.times);
  EXPECT_DOUBLE_EQ(schedule.end_us, 10 + 25 + 5);
  EXPECT_EQ(schedule.on_path, (std::vector<std::int64_t>{1, 1, 0, 1}));
  timed.times.us[1] = 15;  // hides behind the 20
  EXPECT_DOUBLE_EQ(ScheduleOf(timed.graph, timed.times).end_us, 10 + 20 + 5);
}

TEST(ScheduleOfTest, AViewHandsOnWhatItWaitsFor) {
  Timed timed;
  const int exchange = timed.Add(25, kCommunication, Turn::kForward, 0, {});
  const int view = timed.Add(0, kCompute, Turn::kForward, 0, {exchange});
  timed.graph.nodes.back().costing = Costing::kFree;
  timed.Add(10, kCompute, Turn::kForward, 0, {});
  timed.Add(5, kCompute, Turn::kForward, 0, {view});
  EXPECT_DOUBLE_EQ(ScheduleOf(timed.graph, timed.times).end_us, 30);
}

// Stages with a forward and a backward kernel each.
Timed Stages(const std::vector<double>& forward_us, const std::vector<double>& backward_us, std::int64_t microbatches) {
  Timed timed;
  timed.graph.microbatches = microbatches;
  for (std::size_t s = 0; s < forward_us.size(); ++s)
    timed.Add(forward_us[s], kCompute, Turn::kForward, static_cast<int>(s), {});
  for (std::size_t s = backward_us.size(); s-- > 0;)
    timed.Add(backward_us[s], kCompute, Turn::kBackward, static_cast<int>(s), {});
  return timed;
}

TEST(ScheduleOfTest, EqualStagesTakeTheTextbookTime) {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 2, 7, 8, 32}) {
      const auto n = static_cast<std::size_t>(p);
      const Timed timed = Stages(std::vector<double>(n, 10), std::vector<double>(n, 20), m);
      const Schedule schedule = ScheduleOf(timed.graph, timed.times);
      EXPECT_DOUBLE_EQ(schedule.end_us, (m + p - 1) * 30.0) << p << " stages, " << m << " microbatches";
      EXPECT_DOUBLE_EQ(timed.PathUs(schedule), schedule.end_us);
    }
  }
}

TEST(ScheduleOfTest, UnequalStagesGoByTheSlowest) {
  const std::vector<double> forward = {8, 15, 10, 12};
  const std::vector<double> backward = {16, 30, 20, 24};
  for (const int m : {4, 8, 64}) {
    const Timed timed = Stages(forward, backward, m);
    const Schedule schedule = ScheduleOf(timed.graph, timed.times);
    EXPECT_GE(schedule.end_us, 8 + m * 45.0 + 16 - 1e-9);  // to the slowest stage, its passes, and back
    EXPECT_LE(schedule.end_us, (m + 3) * 45.0 + 1e-9);     // all as slow as the slowest
    EXPECT_NEAR(timed.PathUs(schedule), schedule.end_us, 1e-9);
  }
}

TEST(ScheduleOfTest, APassWaitsForItsNeighboursAndNoTwoShareADevice) {
  const Timed timed = Stages({8, 15, 10}, {16, 30, 20}, 6);
  const Schedule schedule = ScheduleOf(timed.graph, timed.times);
  ASSERT_EQ(schedule.blocks.size(), 3U * 2 * 6);
  const auto find = [&](int stage, Turn turn, std::int64_t microbatch) {
    return *std::ranges::find_if(schedule.blocks, [&](const ScheduledBlock& b) {
      return b.stage == stage && b.turn == turn && b.microbatch == microbatch;
    });
  };
  for (std::int64_t m = 0; m < 6; ++m) {
    for (const int s : {1, 2}) {
      EXPECT_GE(find(s, Turn::kForward, m).start_us, find(s - 1, Turn::kForward, m).end_us);
      EXPECT_GE(find(s - 1, Turn::kBackward, m).start_us, find(s, Turn::kBackward, m).end_us);
    }
  }
  for (std::size_t i = 1; i < schedule.blocks.size(); ++i) {
    if (schedule.blocks[i].stage == schedule.blocks[i - 1].stage) {
      EXPECT_GE(schedule.blocks[i].start_us, schedule.blocks[i - 1].end_us);
    }
  }
}

TEST(ScheduleOfTest, MicrobatchesOfOneDeviceAddUpAndWhatRunsOnceRunsOnce) {
  Timed timed = Stages({10}, {20}, 4);
  timed.Add(7, kCompute, Turn::kStep, 0, {});
  const Schedule schedule = ScheduleOf(timed.graph, timed.times);
  EXPECT_DOUBLE_EQ(schedule.end_us, 4 * 30 + 7);
  EXPECT_EQ(schedule.runs, (std::vector<std::int64_t>{4, 4, 1}));
}

TEST(ScheduleOfTest, AForwardPipelineFillsOnce) {
  const Timed timed = Stages({10, 10, 10}, {}, 5);
  EXPECT_DOUBLE_EQ(ScheduleOf(timed.graph, timed.times).end_us, (5 + 3 - 1) * 10);
}

TEST(ScheduleOfTest, AStageThatItsHostHoldsUpIsSlower) {
  Timed timed = Stages({10, 10}, {20, 20}, 4);
  const double device_bound = ScheduleOf(timed.graph, timed.times).end_us;
  for (double& us : timed.times.host_us) us = 100;
  const Schedule schedule = ScheduleOf(timed.graph, timed.times);
  EXPECT_GT(schedule.end_us, 3 * device_bound);
  EXPECT_LE(schedule.host_share, 1);
}

}  // namespace
}  // namespace gpueta
