// Collectives through NCCL, all ranks in this process.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/communicators.h"
#include "calibration/backends/cuda/driver/nccl_api.h"

namespace gpueta {

// `api` must outlive it and what it connects.
std::unique_ptr<CollectiveLibrary> MakeNcclLibrary(const nccl::Api& api);

// FAILED_PRECONDITION where libnccl is missing.
absl::StatusOr<std::unique_ptr<CollectiveLibrary>> OpenNccl();

}  // namespace gpueta
