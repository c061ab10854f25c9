// Which devices take part in a collective and what each of them calls. Pure.
//
// Bytes and ranks are those of the stored rows (core/ops/collective): `bytes` is what
// nccl-tests takes as -b, the whole buffer of all_reduce, alltoall and send_recv, what
// all_gather gathers and reduce_scatter scatters. A rank's part is whole elements,
// rounded up. In send_recv each rank sends to the next one, the last to the first.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/communicators.h"
#include "calibration/backends/cuda/driver/cuda_types.h"
#include "core/ops/kernel.h"

namespace gpueta {

// Ordinals of the devices that may be ranks: `own` first, then those like it (name,
// compute capability, SMs), in their order. MIG instances cannot be.
std::vector<int> RankOrdinals(std::span<const DeviceProperties> devices, int own);

// The positions among `devices` that a collective's ranks are put on, every stride-th,
// the first on 0. UNIMPLEMENTED naming the dim for more than there are, and for
// collectives that are not measured here: of another backend, operator or type.
absl::StatusOr<std::vector<std::size_t>> RankPositions(const Kernel& kernel, std::size_t devices);

struct RankBytes {
  std::size_t from = 0;
  std::size_t to = 0;
};
// The two buffers that each rank needs. The kernel must pass RankPositions.
RankBytes BuffersOf(const Kernel& kernel);

struct RankBuffers {
  DevicePointer from = 0;
  DevicePointer to = 0;
};
// What each rank calls, with `buffers` by rank, of BuffersOf's size.
std::vector<std::vector<ExchangeCall>> CallsOf(const Kernel& kernel, std::span<const RankBuffers> buffers);

}  // namespace gpueta
