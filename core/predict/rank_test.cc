#include "core/predict/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace gpueta {
namespace {

using ::testing::ElementsAre;

// Quantiles of a log-normal latency.
Quantiles Around(double p50, double spread) {
  return {p50, p50 * std::exp(1.2815515655446004 * spread), p50 * std::exp(2.3263478740408408 * spread)};
}
RankedCandidate Candidate(double p50, double spread = 0.02, std::optional<double> price = std::nullopt) {
  return {.latency_us = Around(p50, spread), .fits = true, .price_per_hour = price};
}

template <class T>
std::vector<T> All(const std::vector<DevicePlace>& places, T DevicePlace::*field) {
  std::vector<T> values;
  for (const DevicePlace& place : places) values.push_back(place.*field);
  return values;
}

TEST(ProbabilityWithinTest, IsThatOfTheQuantilesAndGrowsWithTheLimit) {
  const Quantiles us{100, 130, 200};
  EXPECT_NEAR(ProbabilityWithin(us, 100), 0.5, 1e-12);
  EXPECT_NEAR(ProbabilityWithin(us, 130), 0.9, 1e-12);
  EXPECT_NEAR(ProbabilityWithin(us, 200), 0.99, 1e-12);
  EXPECT_NEAR(ProbabilityWithin(us, 100 / 1.3), 0.1, 1e-12);
  double last = 0;
  for (double limit = 1; limit < 1e4; limit *= 1.1) {
    const double now = ProbabilityWithin(us, limit);
    EXPECT_GE(now, last);
    EXPECT_LE(now, 1);
    last = now;
  }
}

TEST(ProbabilityWithinTest, WithoutAnySpreadIsAllOrNothing) {
  EXPECT_EQ(ProbabilityWithin({100, 100, 100}, 99), 0);
  EXPECT_GE(ProbabilityWithin({100, 100, 100}, 100), 0.9);
  EXPECT_EQ(ProbabilityWithin({100, 100, 100}, 101), 1);
}

TEST(RankDevicesTest, OrdersByLatencyAndCallsTiesWhatIntervalsCannotTellApart) {
  const std::vector<RankedCandidate> candidates = {Candidate(300), Candidate(100), Candidate(101), Candidate(200)};
  EXPECT_THAT(All(RankDevices(candidates, {}), &DevicePlace::by_latency), ElementsAre(4, 1, 1, 3));
  // Sure enough of each, they are told apart.
  const std::vector<RankedCandidate> sure = {Candidate(100, 0.001), Candidate(101, 0.001)};
  EXPECT_THAT(All(RankDevices(sure, {}), &DevicePlace::by_latency), ElementsAre(1, 2));
  // Asked for more confidence, they tie.
  EXPECT_THAT(All(RankDevices(sure, {.limit_us = {}, .confidence = 1 - 1e-14}), &DevicePlace::by_latency),
              ElementsAre(1, 1));
}

TEST(RankDevicesTest, TheCheapestRunIsNotTheFastest) {
  const std::vector<RankedCandidate> candidates = {Candidate(100, 0.02, 4), Candidate(200, 0.02, 1)};
  const std::vector<DevicePlace> places = RankDevices(candidates, {});
  EXPECT_THAT(All(places, &DevicePlace::by_latency), ElementsAre(1, 2));
  EXPECT_THAT(All(places, &DevicePlace::by_cost), ElementsAre(2, 1));
  EXPECT_NEAR(places[0].cost, 4 * 100e-6 / 3600, 1e-15);
}

TEST(RankDevicesTest, WithoutAllPricesNothingIsRankedByCost) {
  const std::vector<RankedCandidate> candidates = {Candidate(100, 0.02, 4), Candidate(200)};
  EXPECT_THAT(All(RankDevices(candidates, {.limit_us = 150}), &DevicePlace::by_cost), ElementsAre(0, 0));
  EXPECT_THAT(All(RankDevices(candidates, {.limit_us = 150}), &DevicePlace::by_limit), ElementsAre(1, 2));
  EXPECT_THAT(All(RankDevices(candidates, {}), &DevicePlace::by_limit), ElementsAre(0, 0));
}

TEST(RankDevicesTest, OfThoseThatMeetTheLimitTheCheapestIsFirst) {
  const std::vector<RankedCandidate> candidates = {Candidate(100, 0.05, 10), Candidate(150, 0.05, 2),
                                                   Candidate(200, 0.05, 0.5), Candidate(400, 0.05, 0.1)};
  const std::vector<DevicePlace> places = RankDevices(candidates, {.limit_us = 200});
  EXPECT_THAT(All(places, &DevicePlace::meets),
              ElementsAre(MeetsLimit::kYes, MeetsLimit::kYes, MeetsLimit::kPerhaps, MeetsLimit::kNo));
  EXPECT_THAT(All(places, &DevicePlace::by_limit), ElementsAre(2, 1, 3, 4));
}

TEST(RankDevicesTest, WhatDoesNotFitIsLastAndMeetsNothing) {
  std::vector<RankedCandidate> candidates = {Candidate(10, 0.02, 1), Candidate(100, 0.02, 1)};
  candidates[0].fits = false;
  const std::vector<DevicePlace> places = RankDevices(candidates, {.limit_us = 1000});
  EXPECT_THAT(All(places, &DevicePlace::by_latency), ElementsAre(2, 1));
  EXPECT_THAT(All(places, &DevicePlace::by_limit), ElementsAre(2, 1));
  EXPECT_EQ(places[0].meets, MeetsLimit::kNo);
  EXPECT_EQ(places[0].within_probability, 0);
}

TEST(RankDevicesTest, NoCandidatesNoPlaces) { EXPECT_TRUE(RankDevices({}, {.limit_us = 1}).empty()); }

}  // namespace
}  // namespace gpueta
