#include "server/snapshot_pointer.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace gpueta {
namespace {

// A value that knows how many of its kind live, and that is torn if it is ever
// seen while another thread changes it.
struct Counted {
  static inline std::atomic<int> alive{0};
  explicit Counted(int v) : a(v), b(-v) { ++alive; }
  ~Counted() {
    a = b = 0;
    --alive;
  }
  int a;
  int b;
};

TEST(SnapshotPointerTest, ReadsWhatWasSwappedIn) {
  SnapshotPointer<int> pointer(std::make_shared<const int>(1));
  EXPECT_EQ(*pointer.Read(), 1);
  EXPECT_EQ(*pointer.Swap(std::make_shared<const int>(2)), 1);
  EXPECT_EQ(*pointer.Read(), 2);
}

TEST(SnapshotPointerTest, KeepsOldValuesForThoseWhoHoldThem) {
  SnapshotPointer<Counted> pointer(std::make_shared<const Counted>(1));
  {
    const auto held = pointer.Read();
    pointer.Swap(std::make_shared<const Counted>(2));
    EXPECT_EQ(held->a, 1);
    EXPECT_EQ(Counted::alive, 2);
  }
  EXPECT_EQ(Counted::alive, 1);
}

TEST(SnapshotPointerTest, SwapsDoNotWaitForHolders) {
  SnapshotPointer<int> pointer(std::make_shared<const int>(0));
  const auto held = pointer.Read();  // by the thread that swaps: waiting would never end
  for (int i = 1; i < 100; ++i) pointer.Swap(std::make_shared<const int>(i));
  EXPECT_EQ(*held, 0);
  EXPECT_EQ(*pointer.Read(), 99);
}

TEST(SnapshotPointerTest, ReadersSeeWholeValuesThatNeverGoBack) {
  constexpr int kReaders = 4;
  constexpr int kWriters = 2;
  constexpr int kSwaps = 2000;
  {
    SnapshotPointer<Counted> pointer(std::make_shared<const Counted>(1));
    std::atomic<int> next{2};
    std::mutex order;  // makes the writers' values grow in the order of their swaps
    std::atomic<bool> done{false};
    std::latch start(kReaders + kWriters);
    std::vector<std::thread> readers, writers;
    for (int r = 0; r < kReaders; ++r) {
      readers.emplace_back([&] {
        start.arrive_and_wait();
        int last = 0;
        do {
          const auto value = pointer.Read();
          ASSERT_EQ(value->a, -value->b);
          ASSERT_GE(value->a, last);
          last = value->a;
        } while (!done);
      });
    }
    for (int w = 0; w < kWriters; ++w) {
      writers.emplace_back([&] {
        start.arrive_and_wait();
        for (int i = 0; i < kSwaps; ++i) {
          const std::lock_guard lock(order);
          const int mine = next++;
          pointer.Swap(std::make_shared<const Counted>(mine));
          ASSERT_EQ(pointer.Read()->a, mine);
        }
      });
    }
    for (auto& t : writers) t.join();
    done = true;
    for (auto& t : readers) t.join();
    EXPECT_EQ(pointer.Read()->a, 1 + kWriters * kSwaps);
    EXPECT_EQ(Counted::alive, 1);
  }
  EXPECT_EQ(Counted::alive, 0);
}

TEST(SnapshotPointerTest, ConcurrentSwapsLoseNoValue) {
  constexpr int kThreads = 4;
  constexpr int kSwaps = 500;
  SnapshotPointer<Counted> pointer(std::make_shared<const Counted>(0));
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> returned{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kSwaps; ++i) {
        const auto old = pointer.Swap(std::make_shared<const Counted>(i));
        ASSERT_EQ(old->a, -old->b);
        ++returned;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(returned, kThreads * kSwaps);
  EXPECT_EQ(Counted::alive, 1);
}

}  // namespace
}  // namespace gpueta
