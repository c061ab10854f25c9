// What the kernels of one CUDA backend share.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "calibration/backends/cuda/driver/activity.h"
#include "calibration/backends/cuda/driver/card.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/backends/cuda/ops/operand_memory.h"
#include "calibration/backends/cuda/ops/operation.h"
#include "calibration/backends/cuda/timing/clocks.h"
#include "calibration/backends/cuda/timing/watchdog.h"
#include "calibration/backends/l2_state.h"
#include "calibration/backends/timing.h"
#include "core/ops/timing.h"

namespace gpueta {

class ManifestKernels;  // calibration/backends/manifest/manifest_kernels.h

struct CudaOptions {
  // What is measured: kEager times single launches on an idle stream, kGraph
  // launches that follow each other in a CUDA graph, kKernel what the device
  // records of each kernel (CUPTI).
  Timing timing = Timing::kGraph;
  L2State l2 = L2State::kAsInModel;
  double hung_after_us = kHungAfterUs;
  const ManifestKernels* own_kernels = nullptr;  // of manifests; nullptr: none
  bool collectives = false;                      // with the other devices of this node
};

struct CudaContext {
  CudaDevice& device;
  Card* card = nullptr;                    // null: neither clocks nor limits are known
  ActivityRecorder* activities = nullptr;  // null: names and times of kernels are not recorded
  HostTime time;
  CudaOptions options;
  StreamHandle stream;
  OperandMemory memory;
  ClockWatch clocks;
  CoolDown cool_down;

  // After a pause, before the next sample: runs what is timed until the clocks are up again.
  template <class Run>
  absl::Status PauseAndWarmUp(double pause_us, Run run) {
    constexpr double kWarmAgainUs = 3'000;
    time.pause(pause_us);
    for (const double start_us = time.now(); time.now() - start_us < kWarmAgainUs;) {
      if (absl::Status status = run(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // The card's state; of a card that cannot tell, an unlimited one.
  CardState StateNow() { return card != nullptr ? card->State().value_or(CardState{}) : CardState{}; }
};

}  // namespace gpueta
