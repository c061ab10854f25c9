#include "calibration/control/elasticities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace gpueta {
namespace {

using ::testing::DoubleNear;

constexpr ByLimit kEvenly = {0.5, 0.5, 0, 0};

LimitResiduals Known(double compute, double memory) {
  LimitResiduals residuals;
  residuals[0].mean = compute;
  residuals[1].mean = memory;
  return residuals;
}

TEST(ElasticitiesTest, WithoutNeighboursThePerfectKernelAnswersAndIsDoubted) {
  const Carried carried = Carry(ElasticitiesOf(kEvenly, {}), Known(-0.2, 0));
  EXPECT_THAT(carried.change, DoubleNear(0.1, 1e-9));
  EXPECT_GT(std::sqrt(carried.own_variance), 0.05);
}

TEST(ElasticitiesTest, NeighboursTellWhatTheKernelReallyFollows) {
  // Bound by arithmetic alone, whatever the roofline says.
  const Neighbour slower_memory{.rate_change = {0, -0.3, 0, 0}, .latency_change = 0, .noise = 0.01};
  const Neighbour faster_compute{.rate_change = {0.3, 0, 0, 0}, .latency_change = -0.3, .noise = 0.01};
  const auto learnt = ElasticitiesOf(kEvenly, std::vector{slower_memory, faster_compute});
  const Carried carried = Carry(learnt, Known(-0.1, -0.1));
  EXPECT_THAT(carried.change, DoubleNear(0.1, 0.01));
  EXPECT_LT(carried.own_variance, Carry(ElasticitiesOf(kEvenly, {}), Known(-0.1, -0.1)).own_variance / 4);
}

TEST(ElasticitiesTest, NothingLeftChangesNothing) {
  const Carried carried = Carry(ElasticitiesOf(kEvenly, {}), {});
  EXPECT_EQ(carried.change, 0);
  EXPECT_EQ(carried.own_variance, 0);
  EXPECT_EQ(carried.shared_variance, 0);
}

TEST(ElasticitiesTest, AnUnknownRateWidensWhatDependsOnIt) {
  LimitResiduals unknown_memory;
  unknown_memory[1].variance = 0.5;
  const auto of = [&](const ByLimit& shares) {
    return Carry(ElasticitiesOf(shares, {}), unknown_memory).shared_variance;
  };
  EXPECT_GT(of({0, 1, 0, 0}), 2 * of({1, 0, 0, 0}));
}

}  // namespace
}  // namespace gpueta
