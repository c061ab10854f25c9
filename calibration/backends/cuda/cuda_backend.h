// A GPU as a device that kernels are run on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/cuda/collectives/node_collectives.h"
#include "calibration/backends/cuda/cuda_context.h"
#include "calibration/backends/cuda/device/identity.h"
#include "calibration/backends/cuda/driver/activity.h"
#include "calibration/backends/cuda/driver/card.h"
#include "calibration/backends/cuda/driver/communicators.h"
#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/ops/operation.h"

namespace gpueta {

// What a backend is put together from. Tests put in simulated parts.
struct CudaParts {
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<Card> card;                    // null: without clocks and limits
  std::unique_ptr<ActivityRecorder> activities;  // null: without records of kernels
  // The first that supports a kernel runs it.
  std::vector<std::unique_ptr<OperatorLibrary>> libraries;
  // Other devices of the node that collectives run on besides, and what runs them;
  // null: none are measured.
  std::vector<PeerDevice> peers;
  std::unique_ptr<CollectiveLibrary> collectives;
  // What is missing and what that disables, a line each.
  std::vector<std::string> notes;
  HostTime time = RealTime();
};

// FAILED_PRECONDITION where options ask for what the parts cannot do.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(CudaParts parts, const CudaOptions& options);

// Device `ordinal` of this machine, with every library that is there, and with the
// node's other devices of its kind where options ask for collectives.
// FAILED_PRECONDITION saying what is missing; NOT_FOUND for another ordinal.
absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(int ordinal, const CudaOptions& options = {});

// On a device that is open, or on a part of one, which must be the calling thread's
// (CudaDevice::Activate) now and while the backend is used: libraries are opened
// there. `card`: null for none. Without records of kernels.
absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackendOn(std::unique_ptr<CudaDevice> device,
                                                           std::unique_ptr<Card> card, const CudaOptions& options = {});

}  // namespace gpueta
