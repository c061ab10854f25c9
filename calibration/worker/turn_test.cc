#include "calibration/worker/turn.h"

#include <gtest/gtest.h>

#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/simulated/simulated_library.h"

namespace gpueta {
namespace {

struct Node {
  explicit Node(SimulatedGpu gpu = {}) : driver(std::move(gpu)) {
    CudaParts parts;
    parts.device = driver.OpenSimulated();
    parts.card = driver.OpenCard(0).value();
    parts.time = driver.Time();
    backend = MakeCudaBackend(std::move(parts), {}).value();
  }
  SimulatedDriver driver;
  std::unique_ptr<Backend> backend;
};

TEST(TurnTest, TheShareOfTimeUsedStaysBelowTheLimit) {
  for (double duty : {0.05, 0.2, 0.5}) {
    Node node;
    WorkerTurn turn(*node.backend, {.max_duty = duty}, node.driver.Time());
    double used_us = 0;
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(turn.Wait().ok());
      const double work_us = 1e3 * (1 + i % 7);
      node.driver.Time().pause(work_us);
      used_us += work_us;
    }
    ASSERT_TRUE(turn.Wait().ok());
    EXPECT_NEAR(used_us / node.driver.Time().now(), duty, 0.01 * duty);
  }
}

TEST(TurnTest, AloneItNeverWaits) {
  Node node;
  WorkerTurn turn(*node.backend, {}, node.driver.Time());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(turn.Wait().ok());
  EXPECT_LT(node.driver.Time().now(), 100);
}

TEST(TurnTest, WaitsUntilTheOthersAreDone) {
  Node node({.others = {{.pid = 1}, {.pid = 2}}, .others_busy = 0.9});
  HostTime time = node.driver.Time();
  // The others stop after a minute.
  time.pause = [&node, pause = time.pause](double us) {
    pause(us);
    if (node.driver.state().host_us > 60e6) node.driver.state().gpu.others_busy = 0;
  };
  WorkerTurn turn(*node.backend, {}, time);
  ASSERT_TRUE(turn.Wait().ok());
  EXPECT_GT(node.driver.Time().now(), 60e6);
  EXPECT_LT(node.driver.Time().now(), 70e6);
}

TEST(TurnTest, ToldSoItDoesNotCareForOthers) {
  Node node({.others = {{.pid = 1}, {.pid = 2}}, .others_busy = 0.9});
  WorkerTurn turn(*node.backend, {.wait_for_idle = false}, node.driver.Time());
  ASSERT_TRUE(turn.Wait().ok());
  EXPECT_LT(node.driver.Time().now(), 100);
}

}  // namespace
}  // namespace gpueta
