// A GPU as a host: fewer SMs, contended bandwidth, less of the L2 cache, and where
// allowed lower clocks of SMs and memory.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/card.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/control/card/guarded_card.h"
#include "calibration/control/cuda/contention.h"
#include "calibration/control/device_control.h"

namespace gpueta {

// What the control is put together from. Tests put in simulated parts.
struct CudaHost {
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<Card> card;  // null: clocks stay as they are
  // On a part of the device, which is the thread's then; libraries are opened on it.
  std::function<absl::StatusOr<std::unique_ptr<Backend>>(std::unique_ptr<CudaDevice>)> open_backend;
  // From the SMs that are left, for a share of the time; empty: no contention.
  std::function<absl::StatusOr<std::unique_ptr<Contention>>(std::unique_ptr<CudaDevice>, double duty)> contend;
  MicrosecondClock clock;
};

struct CudaControlOptions {
  bool allow_card_settings = false;
  GuardOptions guard;
};

// Knobs: units are SMs, by green contexts; contention comes from the SMs that are
// left; cache_set_aside is the part of the L2 cache kept for accesses that are
// marked as persisting, of which there are none. With allow_card_settings, locked through
// NVML: core_clock_mhz, and memory_clock_mhz of those memory clocks that allow the same
// clocks of SMs as the highest does, where locking it is tried and works.
// UNIMPLEMENTED before CUDA 12.4; errors as GuardedCard::Open.
absl::StatusOr<std::unique_ptr<DeviceControl>> MakeCudaControl(CudaHost host, const CudaControlOptions& options);

// Of device `ordinal` of this machine. Errors as CudaDriver::Open and
// MakeCudaControl.
absl::StatusOr<std::unique_ptr<DeviceControl>> OpenCudaControl(int ordinal, const CudaControlOptions& options);

}  // namespace gpueta
