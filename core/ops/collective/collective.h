// Collectives among devices.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/ops/counts.h"
#include "core/ops/dim.h"
#include "core/ops/dtype.h"

namespace gpueta {

struct Collective {
  std::string op;          // all_reduce, all_gather, reduce_scatter, alltoall, send_recv
  std::string backend;     // library and node kind, e.g. nccl-tests
  std::int64_t bytes = 0;  // as nccl-tests' -b: the total buffer
  std::int64_t ranks = 0;
  std::int64_t stride = 1;  // devices from one rank to the next (core/device/topology.h); tables do not know it

  friend bool operator==(const Collective&, const Collective&) = default;
};

inline constexpr std::array<DimField<Collective>, 2> kCollectiveDims = {{
    {"bytes", &Collective::bytes},
    {"ranks", &Collective::ranks, 2},
}};

// Bytes that each rank sends over its links, as nccl-tests counts bus
// bandwidth: 2(n−1)/n of the buffer for all_reduce, all of it for send_recv,
// (n−1)/n otherwise.
double BusBytes(const Collective& collective);

// Reads are the bus bytes; a reduction adds once for each element received.
Counts CountsOf(const Collective& collective, DType dtype);

}  // namespace gpueta
