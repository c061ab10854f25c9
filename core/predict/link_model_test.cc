#include "core/predict/link_model.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

NodeTopology Dgx(std::int64_t nodes) {
  NodeTopology topology = *FindNodePreset("dgx-h100");
  topology.nodes = nodes;
  return topology;
}
Collective Of(std::string op, std::int64_t bytes, std::int64_t ranks, std::int64_t stride = 1) {
  return {.op = std::move(op), .backend = "nccl-tests", .bytes = bytes, .ranks = ranks, .stride = stride};
}
double Us(const Collective& collective, const NodeTopology& topology) {
  const auto latency = LinkLatency(collective, topology);
  EXPECT_TRUE(latency.ok()) << latency.status();
  return latency.ok() ? latency->p50 : 0;
}

TEST(LinkLatencyTest, LargeOnesTakeTheBusBytesOverTheSlowestLink) {
  constexpr std::int64_t kGiB = 1 << 30;
  // 2·7/8 GiB at 80 % of 450 GB/s.
  EXPECT_NEAR(Us(Of("all_reduce", kGiB, 8), Dgx(1)), 2 * 7.0 / 8 * kGiB / 360e3, 80);
  // Over 16 ranks of two nodes the 8 adapters of a node carry 400 GB/s, more than its NVLink.
  EXPECT_NEAR(Us(Of("all_gather", kGiB, 16), Dgx(2)), 15.0 / 16 * kGiB / 360e3, 150);
  // One rank a node has its own adapter alone.
  EXPECT_NEAR(Us(Of("all_gather", kGiB, 2, 8), Dgx(2)), 0.5 * kGiB / 50e3, 80);
}

TEST(LinkLatencyTest, SmallOnesTakeHops) {
  EXPECT_LT(Us(Of("all_reduce", 8, 2), Dgx(1)), Us(Of("all_reduce", 8, 8), Dgx(1)));
  EXPECT_LT(Us(Of("all_reduce", 8, 8), Dgx(1)), Us(Of("all_reduce", 8, 64), Dgx(8)));
  NodeTopology slow = Dgx(1);
  slow.link.latency_us = 100;
  EXPECT_GT(Us(Of("send_recv", 8, 2), slow), 100);
}

TEST(LinkLatencyTest, GrowsWithBytesAndFallsWithBandwidth) {
  double last = 0;
  for (std::int64_t bytes = 8; bytes < (1LL << 34); bytes *= 3) {
    const double us = Us(Of("all_reduce", bytes, 16), Dgx(2));
    EXPECT_GT(us, last);
    last = us;
    NodeTopology fast = Dgx(2);
    fast.link.gb_s *= 2;
    fast.network.gb_s *= 2;
    EXPECT_LT(Us(Of("all_reduce", bytes, 16), fast), us);
  }
}

TEST(LinkLatencyTest, TheNetworkAddsToWhatIsKnownInsideANode) {
  const Quantiles inside = {1000, 1100, 1200};
  const auto within = LinkLatency(Of("all_reduce", 1 << 20, 8), Dgx(1), &inside);
  EXPECT_EQ(within->p50, 1000);
  const auto across = LinkLatency(Of("all_reduce", 1 << 20, 16), Dgx(2), &inside);
  EXPECT_GT(across->p50, 1000);
  EXPECT_GT(across->p90 / across->p50, within->p90 / within->p50);
}

TEST(LinkLatencyTest, AGroupWithoutRoomIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(LinkLatency(Of("all_reduce", 8, 16), Dgx(1)).status()));
}

}  // namespace
}  // namespace gpueta
