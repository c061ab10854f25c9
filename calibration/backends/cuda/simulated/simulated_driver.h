// A simulated GPU behind the driver interface, with a clock of its own: calls take
// simulated host time, kernels simulated device time, and nothing waits.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>

#include "calibration/backends/cuda/driver/activity.h"
#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/simulated/simulated_gpu.h"
#include "calibration/backends/timing.h"

namespace gpueta {

// What the device, its card and its users share.
struct SimulatedState {
  explicit SimulatedState(SimulatedGpu hidden) : gpu(std::move(hidden)), random(gpu.seed) {}

  // The card as it is at a time.
  CardState CardAt(double us) const;

  SimulatedGpu gpu;
  std::mt19937_64 random;
  double host_us = 0;
  double busy_until_us = 0;  // of the device
  // Locked by Card; 0: not.
  double locked_sm_mhz = 0;
  double locked_memory_mhz = 0;
  double contention = 0;  // share of the time in which other SMs copy
  bool recording = false;
  std::vector<KernelActivity> activities;
  std::size_t launches = 0;  // of kernels, those of graphs included
};

class SimulatedDevice : public CudaDevice {
 public:
  // A kernel of a library that is simulated too.
  virtual absl::Status Enqueue(const SimulatedWork& work, StreamHandle stream) = 0;
  virtual SimulatedState& state() = 0;
};

class SimulatedDriver : public CudaDriver {
 public:
  explicit SimulatedDriver(SimulatedGpu gpu) : state_(std::make_shared<SimulatedState>(std::move(gpu))) {}

  int DeviceCount() const override { return 1; }
  absl::StatusOr<DeviceProperties> PropertiesOf(int ordinal) override;
  absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int ordinal) override;
  absl::StatusOr<std::unique_ptr<Card>> OpenCard(int ordinal) override;
  std::unique_ptr<SimulatedDevice> OpenSimulated();
  std::unique_ptr<ActivityRecorder> OpenRecorder();

  // Simulated time; pausing lets it pass.
  HostTime Time();
  SimulatedState& state() { return *state_; }

 private:
  std::shared_ptr<SimulatedState> state_;
};

}  // namespace gpueta
