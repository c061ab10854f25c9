// Collectives by their links alone, where nobody measured them.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "core/device/topology.h"
#include "core/ops/collective/collective.h"
#include "core/predict/estimate.h"

namespace gpueta {

// The form that answers collectives by their links; not to be asked for by name.
inline constexpr std::string_view kLinksEstimator = "links";

// Latency of a collective over the slowest link between its ranks:
// t = base + hops·α + V/(e·β), the least over rings and (for all_reduce) trees
// and NCCL's three protocols. α and the base are those of NCCL's tuning model,
// V the bytes over each rank's links (BusBytes; 2·bytes for trees), β the link's
// rate, of which NVLink gives 80 % and PCIe 75 % to a ring (NCCL's graph search).
// Rings: Patarasuk and Yuan 2009; trees: Thakur, Rabenseifner and Gropp 2005.
//
// Intervals: observed over predicted is within 1.6 and 2.1 (p90, p99) on 1,008
// public rows of nccl-tests on NVLink, 14 and 20 on 504 of a box with PCIe, 9.4
// and 17 on 4,970 between nodes: machines of one name differ (decision 19).
//
// With `inside`, the latency among the ranks of one node is known: the network
// adds its hops, and its time where it is the slower one.
//
// INVALID_ARGUMENT naming `nodes` for a group that has no room.
absl::StatusOr<Quantiles> LinkLatency(const Collective& collective, const NodeTopology& topology,
                                      const Quantiles* inside = nullptr);

// Time to copy so many bytes from the host's memory; 0 where its link is not known.
double HostCopyUs(const NodeTopology& topology, double bytes);

}  // namespace gpueta
