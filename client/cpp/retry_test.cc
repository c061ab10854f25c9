#include "client/cpp/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gpueta::client {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

// A clock that moves only when slept on.
struct FakeTime {
  std::chrono::steady_clock::time_point now{};
  std::vector<std::int64_t> slept;
  Clock clock() {
    return {.now = [this] { return now; },
            .sleep =
                [this](milliseconds pause) {
                  slept.push_back(pause.count());
                  now += pause;
                }};
  }
};

absl::Status CallFailing(int times, absl::Status error, FakeTime& time, ClientOptions options = {}) {
  int calls = 0;
  return Retry(options, time.clock(), [&](auto) { return ++calls <= times ? error : absl::OkStatus(); });
}

TEST(RetryTest, ASuccessIsNotRepeated) {
  FakeTime time;
  EXPECT_TRUE(CallFailing(0, absl::OkStatus(), time).ok());
  EXPECT_TRUE(time.slept.empty());
}

TEST(RetryTest, PausesDoubleUpToTheLongest) {
  FakeTime time;
  const ClientOptions options{.attempts = 6, .first_pause = milliseconds(100), .longest_pause = milliseconds(500)};
  EXPECT_TRUE(CallFailing(5, absl::UnavailableError("down"), time, options).ok());
  EXPECT_THAT(time.slept, ElementsAre(100, 200, 400, 500, 500));
}

TEST(RetryTest, GivesUpAfterTheLastAttempt) {
  FakeTime time;
  EXPECT_EQ(CallFailing(99, absl::UnavailableError("down"), time).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(time.slept.size(), 4u);
}

TEST(RetryTest, FinalErrorsAreReportedAtOnce) {
  for (const absl::Status& error :
       {absl::InvalidArgumentError("x"), absl::NotFoundError("x"), absl::FailedPreconditionError("x"),
        absl::DeadlineExceededError("x"), absl::ResourceExhaustedError("x")}) {
    FakeTime time;
    EXPECT_EQ(CallFailing(1, error, time), error);
    EXPECT_TRUE(time.slept.empty());
  }
}

TEST(RetryTest, NeverSleepsPastTheDeadline) {
  FakeTime time;
  const ClientOptions options{.deadline = milliseconds(250), .attempts = 10, .first_pause = milliseconds(100)};
  EXPECT_FALSE(CallFailing(99, absl::UnavailableError("down"), time, options).ok());
  EXPECT_THAT(time.slept, ElementsAre(100));
}

}  // namespace
}  // namespace gpueta::client
