// Kernels on other SMs that take memory bandwidth away.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"
#include "calibration/control/cuda/contention.h"

namespace gpueta {

// Copies memory on every SM of a partition for a share of the time, in bursts of
// microseconds (`contend` of micro_kernels.cu). A thread of its own keeps two kernels of
// some milliseconds each enqueued: one that ran for good would hold up whoever frees
// memory, which waits for everything on the device.
class SmAntagonist : public Contention {
 public:
  // Returns when it copies. `duty` in (0, 1]; `ptx`: MicroKernelsPtx(). Errors as
  // CudaDevice; DEADLINE_EXCEEDED where the kernels do not start.
  static absl::StatusOr<std::unique_ptr<SmAntagonist>> Start(std::unique_ptr<CudaDevice> sms, double duty,
                                                             std::string_view ptx);
  ~SmAntagonist() override;
  SmAntagonist(const SmAntagonist&) = delete;
  SmAntagonist& operator=(const SmAntagonist&) = delete;

  std::string Disturbance() const override;

 private:
  class Feeder;
  SmAntagonist() = default;

  std::unique_ptr<Feeder> feeder_;
  std::thread thread_;
};

}  // namespace gpueta
