#include "core/feedback/error_windows.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;
constexpr PredictedAndObserved kPair{{10, 11, 12}, 10};

TEST(ErrorWindowsTest, AWindowHoldsWhatWasObservedInIt) {
  ErrorWindows windows;
  for (std::int64_t ago = 0; ago < 10 * 86400; ago += 60) windows.Add(kNow - 10 * 86400 + ago, kPair);
  const auto count = [&](std::int64_t seconds) { return windows.Since(kNow - seconds, kNow).count(); };
  // One a minute; a window may begin up to one bucket early.
  EXPECT_GE(count(600), 10);
  EXPECT_LE(count(600), 10 + 5);
  EXPECT_GE(count(6 * 3600), 6 * 60);
  EXPECT_LE(count(6 * 3600), 6 * 60 + 60);
  EXPECT_GE(count(5 * 86400), 5 * 1440);
  EXPECT_LE(count(5 * 86400), 5 * 1440 + 1440);
  EXPECT_EQ(windows.Since(0, kNow).count(), 10 * 1440);
}

TEST(ErrorWindowsTest, NothingIsKeptLongerThanAMonthNorInMoreBucketsThanStated) {
  ErrorWindows windows;
  for (std::int64_t day = 0; day < 100; ++day) {
    for (std::int64_t hour = 0; hour < 24; ++hour) windows.Add(kNow + day * 86400 + hour * 3600, kPair);
  }
  for (std::size_t i = 0; i < ErrorWindows::kLengths.size(); ++i) {
    EXPECT_LE(static_cast<std::int64_t>(windows.buckets()[i].size()), ErrorWindows::kLengths[i].buckets);
  }
  EXPECT_LE(windows.Since(0, kNow + 100 * 86400).count(), 30 * 24);
  windows.Add(kNow, kPair);  // too old for any
  EXPECT_LE(windows.Since(0, kNow + 100 * 86400).count(), 30 * 24);
}

TEST(ErrorWindowsTest, WhatIsNotObservedAnyMoreIsForgottenWithinAMonth) {
  ErrorWindows windows;
  EXPECT_TRUE(windows.empty());
  windows.Add(kNow, kPair);
  windows.Forget(kNow + 7200);
  EXPECT_TRUE(windows.buckets()[0].empty());
  EXPECT_EQ(windows.Since(kNow, kNow + 7200).count(), 1);
  windows.Forget(kNow + 29 * 86400);
  EXPECT_FALSE(windows.empty());
  windows.Forget(kNow + 31 * 86400);
  EXPECT_TRUE(windows.empty());
}

TEST(ErrorWindowsTest, AnHourAgoIsNotTheLastTenMinutes) {
  ErrorWindows windows;
  windows.Add(kNow - 3600, kPair);
  EXPECT_EQ(windows.Since(kNow - 600, kNow).count(), 0);
  EXPECT_EQ(windows.Since(kNow - 2 * 3600, kNow).count(), 1);
}

}  // namespace
}  // namespace gpueta
