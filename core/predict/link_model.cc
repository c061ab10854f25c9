#include "core/predict/link_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace gpueta {
namespace {

// A protocol of NCCL (src/graph/tuning.cc, 2.2x): what a call takes at least,
// a hop by kind of link, and the share of the bandwidth that carries data.
struct Protocol {
  double base_us;
  std::array<double, 3> hop_us;  // by LinkKind
  double share;
};
constexpr std::array<Protocol, 3> kRing = {{
    {6.6, {0.6, 1.0, 2.7}, 0.25},   // LL
    {14.0, {1.9, 2.5, 4.0}, 0.92},  // LL128
    {8.4, {3.4, 5.7, 14.0}, 1},     // Simple
}};
constexpr std::array<Protocol, 3> kTree = {{
    {6.8, {0.6, 1.0, 5.0}, 0.25},
    {14.0, {1.25, 1.9, 8.5}, 0.92},
    {8.4, {4.0, 4.0, 14.0}, 1},
}};

// Of a link's rate what a ring gets (src/graph/topo.h: 20 of NVLink's 25 GB/s,
// 12 of PCIe's 16), by LinkKind.
constexpr std::array<double, 3> kReached = {0.8, 0.75, 1.0};

// p90 and p99 over p50, by LinkKind.
struct Spread {
  double p90, p99;
};
constexpr std::array<Spread, 3> kSpread = {{{1.8, 3.0}, {14, 20}, {9.5, 17}}};

std::size_t Place(LinkKind kind) { return static_cast<std::size_t>(kind); }
double BytesPerUs(const Link& link) { return link.gb_s * 1e3 * kReached[Place(link.kind)]; }
double HopUs(const Link& link, const Protocol& protocol) {
  return link.latency_us > 0 ? link.latency_us : protocol.hop_us[Place(link.kind)];
}

// What the ranks' group looks like, and what passes.
struct Traffic {
  double volume;        // over each rank's links
  double hops_inside;   // one after the other
  double hops_between;  // over the network
};

struct Links {
  const NodeTopology& topology;
  GroupPlacement placement;
  bool leaves_node() const { return placement.nodes > 1; }
  // Ring traffic leaves a node over the adapters of all ranks in it.
  double NetworkBytesPerUs() const { return BytesPerUs(topology.network) * static_cast<double>(placement.per_node); }
  double BytesPerUsOfSlowest() const {
    double rate = placement.per_node > 1 ? BytesPerUs(topology.link) : std::numeric_limits<double>::infinity();
    if (leaves_node()) rate = std::min(rate, NetworkBytesPerUs());
    return rate;
  }
};

double LeastUs(const Traffic& traffic, const Links& links, const std::array<Protocol, 3>& protocols) {
  double least = std::numeric_limits<double>::infinity();
  for (const Protocol& protocol : protocols) {
    const double us = protocol.base_us + traffic.hops_inside * HopUs(links.topology.link, protocol) +
                      traffic.hops_between * HopUs(links.topology.network, protocol) +
                      traffic.volume / (links.BytesPerUsOfSlowest() * protocol.share);
    least = std::min(least, us);
  }
  return least;
}

}  // namespace

absl::StatusOr<Quantiles> LinkLatency(const Collective& c, const NodeTopology& topology, const Quantiles* inside) {
  Links links{topology, {}};
  if (const absl::Status placed = gpueta::Place(topology, c.ranks, c.stride, links.placement); !placed.ok())
    return placed;
  const auto nodes = static_cast<double>(links.placement.nodes);
  const auto per_node = static_cast<double>(links.placement.per_node);
  const bool reduces = c.op == "all_reduce";
  const bool passes = c.op == "send_recv";
  const double rounds = reduces ? 2 : 1;
  const double steps = passes ? 1 : rounds * static_cast<double>(c.ranks - 1);
  const double between = passes ? (links.leaves_node() ? 1 : 0) : rounds * (nodes - 1);
  const LinkKind slowest = links.leaves_node() ? LinkKind::kNetwork : topology.link.kind;
  const Spread spread = kSpread[Place(slowest)];
  const Traffic ring{BusBytes(c), steps - between, between};
  if (inside != nullptr && links.leaves_node()) {
    const double network_us = ring.volume / links.NetworkBytesPerUs();
    const double us = std::max(inside->p50, network_us) + between * HopUs(topology.network, kRing.back());
    return Quantiles{us, us * spread.p90, us * spread.p99};
  }
  if (inside != nullptr) return *inside;
  double us = LeastUs(ring, links, kRing);
  if (reduces) {
    const Traffic tree{2 * static_cast<double>(c.bytes), 2 * (per_node - 1), 2 * std::ceil(std::log2(nodes))};
    us = std::min(us, LeastUs(tree, links, kTree));
  }
  return Quantiles{us, us * spread.p90, us * spread.p99};
}

double HostCopyUs(const NodeTopology& topology, double bytes) {
  return topology.host.gb_s > 0 ? bytes / BytesPerUs(topology.host) : 0;
}

}  // namespace gpueta
