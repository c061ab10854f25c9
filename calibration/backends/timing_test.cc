#include "calibration/backends/timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using Trace = std::vector<Sample>;

Trace FromFunction(std::size_t n, const std::function<double(std::size_t)>& latency_us,
                   Condition condition = Condition::kUndisturbed) {
  Trace trace;
  for (std::size_t i = 0; i < n; ++i) trace.push_back({.latency_us = latency_us(i), .condition = condition});
  return trace;
}

Trace Noisy(std::size_t n, double mean_us, double deviation_us, Condition condition = Condition::kUndisturbed) {
  std::mt19937 generator(7);
  std::normal_distribution<double> normal(mean_us, deviation_us);
  return FromFunction(
      n, [&](std::size_t) { return normal(generator); }, condition);
}

Trace EverySecond(Trace trace, const Sample& other) {
  for (std::size_t i = 0; i < trace.size(); i += 2) trace[i] = other;
  return trace;
}

constexpr Sample kInterrupted{.latency_us = 5000, .condition = Condition::kInterrupted};
constexpr Sample kSlowed{.latency_us = 130, .condition = Condition::kSlowed};

struct Case {
  std::string name;
  Trace trace;
  double latency_us;
  double tolerance_us;
  bool disturbed;
  std::size_t used;
  bool slowed = false;
  bool shared = false;
};

class SummarizeTraces : public testing::TestWithParam<Case> {};

TEST_P(SummarizeTraces, FindsTheLatencyAndWhetherItIsKnown) {
  const Case& c = GetParam();
  const TimingResult result = Summarize(c.trace, {});
  EXPECT_NEAR(result.latency_us, c.latency_us, c.tolerance_us);
  EXPECT_EQ(result.disturbed, c.disturbed) << "relative error " << result.relative_error;
  EXPECT_EQ(result.slowed, c.slowed);
  EXPECT_EQ(result.shared, c.shared);
  EXPECT_EQ(result.samples, c.used);
  EXPECT_EQ(result.samples + result.discarded, c.trace.size());
}

INSTANTIATE_TEST_SUITE_P(
    All, SummarizeTraces,
    testing::Values(
        Case{"Constant", Noisy(50, 100, 0), 100, 0, false, 50}, Case{"Noisy", Noisy(200, 100, 3), 100, 1, false, 200},
        Case{"NoiseTooWideForSoFewSamples", Noisy(12, 100, 15), 100, 15, true, 12},
        Case{"SpikesDoNotMoveIt", FromFunction(100, [](std::size_t i) { return i % 10 == 3 ? 900.0 : 100.0; }), 100, 0,
             false, 100},
        Case{"TwoModesAreNotOneLatency", FromFunction(60, [](std::size_t i) { return i % 2 == 0 ? 100.0 : 150.0; }),
             125, 0, true, 60},
        Case{"InterruptedSamplesAreDropped", EverySecond(Noisy(60, 100, 0), kInterrupted), 100, 0, false, 30},
        Case{"SlowedSamplesAreDropped", EverySecond(Noisy(60, 100, 0), kSlowed), 100, 0, false, 30},
        Case{"AFewGoodSamplesBeatManyInterruptedOnes", EverySecond(Noisy(10, 100, 0), kInterrupted), 100, 0, true, 5},
        Case{"SlowedSamplesCountWhereThereAreNoOthers", Trace(20, kSlowed), 130, 0, false, 20, true},
        Case{"TheShortestOfInterruptedSamples",
             FromFunction(
                 20, [](std::size_t i) { return 700.0 + 100 * static_cast<double>(i % 4); }, Condition::kInterrupted),
             700, 0, true, 20},
        Case{"InterruptedAllAlikeIsADeviceThatIsShared", Noisy(100, 1600, 50, Condition::kInterrupted), 1600, 10, false,
             100, false, true},
        Case{"TooFewInterruptedSamplesSayNothing", Noisy(8, 1600, 0, Condition::kInterrupted), 1600, 0, true, 8},
        Case{"InterruptionsThatComeAndGoAreNoState",
             FromFunction(
                 100, [](std::size_t i) { return i % 2 == 0 ? 1000.0 : 2500.0; }, Condition::kInterrupted),
             1000, 0, true, 100},
        Case{"InterruptionsThatGrowAreNoState",
             FromFunction(
                 100, [](std::size_t i) { return 1000.0 + 10 * static_cast<double>(i); }, Condition::kInterrupted),
             1500, 0, true, 50},
        Case{"SettlesAfterASlowStart", FromFunction(80, [](std::size_t i) { return i < 30 ? 140.0 : 100.0; }), 100, 0,
             false, 40},
        Case{"KeepsDrifting", FromFunction(100, [](std::size_t i) { return 100.0 + static_cast<double>(i); }), 175, 1,
             true, 50},
        Case{"NoSamples", {}, 0, 0, true, 0}),
    [](const auto& tested) { return tested.param.name; });

TEST(SummarizeTest, ScalingLatenciesScalesTheResult) {
  const Trace trace = Noisy(40, 100, 5);
  Trace scaled = trace;
  for (Sample& sample : scaled) sample.latency_us *= 8;
  const TimingResult once = Summarize(trace, {});
  const TimingResult eightfold = Summarize(scaled, {});
  EXPECT_DOUBLE_EQ(eightfold.latency_us, 8 * once.latency_us);
  EXPECT_DOUBLE_EQ(eightfold.spread_us, 8 * once.spread_us);
  EXPECT_DOUBLE_EQ(eightfold.relative_error, once.relative_error);
}

// Work whose samples are a function of their number; running it takes its time
// on a clock of its own.
class FakeWork {
 public:
  explicit FakeWork(std::function<Sample(std::size_t)> sample) : sample_(std::move(sample)) {}

  TakeSample Taker() {
    return [this](std::size_t runs) -> absl::StatusOr<Sample> {
      const Sample sample = sample_(samples_++);
      largest_batch_ = std::max(largest_batch_, runs);
      now_us_ += sample.latency_us * static_cast<double>(runs);
      return sample;
    };
  }
  MicrosecondClock Clock() {
    return [this] { return now_us_; };
  }
  std::size_t samples() const { return samples_; }
  std::size_t largest_batch() const { return largest_batch_; }
  double now_us() const { return now_us_; }

 private:
  std::function<Sample(std::size_t)> sample_;
  std::size_t samples_ = 0;
  std::size_t largest_batch_ = 0;
  double now_us_ = 0;
};

FakeWork Constant(double latency_us) {
  return FakeWork([latency_us](std::size_t) { return Sample{.latency_us = latency_us}; });
}

TEST(TimeRepeatedlyTest, StopsOncePrecise) {
  FakeWork work = Constant(500);
  const TimingPolicy policy;
  const auto result = TimeRepeatedly(work.Taker(), policy, work.Clock());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->latency_us, 500);
  EXPECT_FALSE(result->disturbed);
  EXPECT_GE(work.now_us(), policy.warm_up_us + policy.min_time_us);
  EXPECT_LT(work.now_us(), policy.warm_up_us + 2 * policy.min_time_us);
}

TEST(TimeRepeatedlyTest, StopsAtTheTimeBudgetWhenTheNoiseIsHopeless) {
  FakeWork work([](std::size_t i) { return Sample{.latency_us = i % 2 == 0 ? 1000.0 : 3000.0}; });
  const TimingPolicy policy{.max_samples = 100'000};
  const auto result = TimeRepeatedly(work.Taker(), policy, work.Clock());
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->disturbed);
  EXPECT_GT(work.now_us(), policy.time_budget_us);
  EXPECT_LT(work.now_us(), 1.3 * policy.time_budget_us);
}

TEST(TimeRepeatedlyTest, TakesTheLeastNumberOfSamplesWhateverTheBudget) {
  FakeWork work = Constant(2e6);
  const TimingPolicy policy;
  const auto result = TimeRepeatedly(work.Taker(), policy, work.Clock());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->samples, policy.min_samples);
  EXPECT_FALSE(result->disturbed);
}

TEST(TimeRepeatedlyTest, TakesNoMoreThanTheLargestNumberOfSamples) {
  FakeWork work([](std::size_t) { return Sample{.latency_us = 1, .condition = Condition::kInterrupted}; });
  const TimingPolicy policy{.max_samples = 150};
  const auto result = TimeRepeatedly(work.Taker(), policy, work.Clock());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->samples, 150U);
}

TEST(TimeRepeatedlyTest, WaitsForADeviceThatIsSharedToBeFree) {
  const auto busy_until = [](std::size_t last) {
    return FakeWork([last](std::size_t i) {
      return i < last ? Sample{.latency_us = 1600, .condition = Condition::kInterrupted} : Sample{.latency_us = 1000};
    });
  };
  FakeWork for_a_while = busy_until(300);
  const auto result = TimeRepeatedly(for_a_while.Taker(), {}, for_a_while.Clock());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->latency_us, 1000);
  EXPECT_FALSE(result->shared);
  FakeWork for_good = busy_until(1'000'000);
  const TimingPolicy policy;
  const auto shared = TimeRepeatedly(for_good.Taker(), policy, for_good.Clock());
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(shared->latency_us, 1600);
  EXPECT_TRUE(shared->shared);
  EXPECT_FALSE(shared->disturbed);
  EXPECT_GT(for_good.now_us(), policy.time_budget_us);
}

TEST(TimeRepeatedlyTest, RunsShortWorkSeveralTimesASample) {
  FakeWork work = Constant(3);
  ASSERT_TRUE(TimeRepeatedly(work.Taker(), {.sample_us = 20}, work.Clock()).ok());
  EXPECT_EQ(work.largest_batch(), 7U);
}

TEST(TimeRepeatedlyTest, WarmUpIsNotMeasured) {
  FakeWork work([](std::size_t i) { return Sample{.latency_us = i < 3 ? 9000.0 : 100.0}; });
  const auto result = TimeRepeatedly(work.Taker(), {.warm_up_us = 0, .warm_up_runs = 3}, work.Clock());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->latency_us, 100);
  EXPECT_EQ(result->discarded, 0U);
}

TEST(TimeRepeatedlyTest, GoesOnUntilEnoughSamplesAreUndisturbed) {
  FakeWork work([](std::size_t i) { return i < 100 ? kInterrupted : Sample{.latency_us = 500}; });
  const auto result = TimeRepeatedly(work.Taker(), {.warm_up_us = 0}, work.Clock());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->latency_us, 500);
  EXPECT_FALSE(result->disturbed);
  EXPECT_GE(result->samples, TimingPolicy().min_samples);
}

TEST(TimeRepeatedlyTest, DoesNotWaitForASlowedDevice) {
  FakeWork work([](std::size_t) { return kSlowed; });
  const TimingPolicy policy;
  const auto result = TimeRepeatedly(work.Taker(), policy, work.Clock());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->latency_us, kSlowed.latency_us);
  EXPECT_TRUE(result->slowed);
  EXPECT_FALSE(result->disturbed);
  EXPECT_LT(work.now_us(), policy.time_budget_us);
}

TEST(TimeRepeatedlyTest, TakesARecordOnce) {
  FakeWork work([](std::size_t) { return Sample{.latency_us = 42, .recorded = true}; });
  const auto result = TimeRepeatedly(work.Taker(), {}, work.Clock());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->latency_us, 42);
  EXPECT_FALSE(result->disturbed);
  EXPECT_EQ(work.samples(), 1U);
}

TEST(TimeRepeatedlyTest, ReturnsTheErrorOfASample) {
  const TakeSample fails = [](std::size_t) -> absl::StatusOr<Sample> { return Internal("device lost"); };
  EXPECT_EQ(TimeRepeatedly(fails, {}, [] { return 0.0; }).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace gpueta
