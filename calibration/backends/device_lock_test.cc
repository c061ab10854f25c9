#include "calibration/backends/device_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "calibration/backends/testing_fake_backend.h"

namespace gpueta {
namespace {

std::string Name() { return "lock-test-" + std::to_string(getpid()); }

TEST(DeviceLockTest, OneHoldsItAtATime) {
  auto first = DeviceLock::Acquire(testing::TempDir(), Name());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(DeviceLock::Acquire(testing::TempDir(), Name()).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(DeviceLock::Acquire(testing::TempDir(), Name() + "-other").ok());
  { const DeviceLock gone = *std::move(first); }
  EXPECT_TRUE(DeviceLock::Acquire(testing::TempDir(), Name()).ok());
}

TEST(DeviceLockTest, AKilledHolderLetsGo) {
  const std::string name = Name() + "-killed";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const auto lock = DeviceLock::Acquire(testing::TempDir(), name);
    const char held = lock.ok() ? 'y' : 'n';
    if (write(ready[1], &held, 1) == 1) pause();
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_FALSE(DeviceLock::Acquire(testing::TempDir(), name).ok());
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  EXPECT_TRUE(DeviceLock::Acquire(testing::TempDir(), name).ok());
}

// A device of a node of two.
class OneOfTwo : public testing_util::FakeBackend {
 public:
  OneOfTwo(std::string own, std::string peer)
      : FakeBackend([](Sample sample, std::size_t) { return sample; }), own_(std::move(own)), peer_(std::move(peer)) {}
  std::map<std::string, std::string> labels() const override { return {{"uuid", own_}}; }
  std::vector<std::string> peers() const override {
    return peer_.empty() ? std::vector<std::string>() : std::vector<std::string>{peer_};
  }

 private:
  std::string own_, peer_;
};

TEST(DeviceLockTest, ABackendsDevicesAreLockedTogether) {
  const std::string a = Name() + "-a";
  const std::string b = Name() + "-b";
  {
    const auto both = LockDevicesOf(OneOfTwo(a, b), testing::TempDir());
    ASSERT_TRUE(both.ok()) << both.status();
    for (const std::string& one : {a, b}) {
      const absl::Status status = LockDevicesOf(OneOfTwo(one, ""), testing::TempDir()).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_NE(status.message().find("somebody else measures on " + one), std::string::npos) << status;
    }
  }
  EXPECT_TRUE(LockDevicesOf(OneOfTwo(b, ""), testing::TempDir()).ok());
  // Without GPUs there is nothing to lock.
  const testing_util::FakeBackend none([](Sample sample, std::size_t) { return sample; });
  EXPECT_TRUE(LockDevicesOf(none, "/nonexistent").ok());
}

TEST(DeviceLockTest, SaysWhichFileCannotBeMade) {
  const auto lock = DeviceLock::Acquire("/nonexistent", "gpu");
  EXPECT_EQ(lock.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(lock.status().message()).find("/nonexistent/gpueta-gpu.lock"), std::string::npos);
}

}  // namespace
}  // namespace gpueta
