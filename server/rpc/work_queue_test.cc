#include "server/rpc/work_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gpueta {
namespace {

TEST(WorkQueueTest, RunsInOrderAndFinishesBeforeItGoes) {
  std::vector<int> order;
  {
    WorkQueue queue;
    for (int i = 0; i < 100; ++i) queue.Post([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(WorkQueueTest, WorkMayPostWork) {
  int runs = 0;
  {
    WorkQueue queue;
    queue.Post([&] { queue.Post([&] { ++runs; }); });
  }
  EXPECT_EQ(runs, 1);
}

TEST(WorkQueueTest, TakesWorkFromManyThreads) {
  int runs = 0;  // touched by the queue's thread alone
  {
    WorkQueue queue;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 250; ++i) queue.Post([&runs] { ++runs; });
      });
    }
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(runs, 1000);
}

}  // namespace
}  // namespace gpueta
