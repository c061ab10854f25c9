// A simulated GPU behind the driver interface, with a clock of its own: calls take
// simulated host time, kernels simulated device time, and nothing waits.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "calibration/backends/cuda/driver/activity.h"
#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/simulated/simulated_gpu.h"
#include "calibration/backends/timing.h"

namespace gpueta {

// Devices that go on together: each waits until all have come.
struct SimulatedMeeting {
  // When a device's stream goes on, given when the last one came.
  using GoOn = std::function<double(double met_us)>;

  std::size_t devices = 0;
  const void* convener = nullptr;  // whoever brings them together
  double latest_us = 0;
  std::vector<std::function<void(double met_us)>> waiting;

  // Calls `go_on` of all when this is the last one to come, after which it can be used
  // again.
  void Come(double at_us, std::function<void(double met_us)> go_on);
};

// What the device, its card and its users share; of several devices of a node, the
// host's time.
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
  std::size_t launches = 0;       // of kernels, those of graphs included
  const void* current = nullptr;  // the device that the thread has
  std::size_t misplaced = 0;      // calls on a device that the thread did not have
};

class SimulatedDevice : public CudaDevice {
 public:
  // A kernel of a library that is simulated too.
  virtual absl::Status Enqueue(const SimulatedWork& work, StreamHandle stream) = 0;
  // The stream waits for the other devices, then goes on as `go_on` says.
  virtual void Meet(std::shared_ptr<SimulatedMeeting> meeting, SimulatedMeeting::GoOn go_on, StreamHandle stream) = 0;
  // Whether a graph that is not destroyed has a meeting of `convener`.
  virtual bool HasGraphOf(const void* convener) const = 0;
  virtual SimulatedState& state() = 0;
};

class SimulatedDriver : public CudaDriver {
 public:
  explicit SimulatedDriver(SimulatedGpu gpu) : state_(std::make_shared<SimulatedState>(std::move(gpu))) {}

  int DeviceCount() const override { return 1; }
  absl::StatusOr<DeviceProperties> PropertiesOf(int ordinal) override;
  absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int ordinal) override;
  absl::StatusOr<std::unique_ptr<Card>> OpenCard(int ordinal) override;
  // Another device of the node each time, all alike.
  std::unique_ptr<SimulatedDevice> OpenSimulated();
  std::unique_ptr<ActivityRecorder> OpenRecorder();

  // Simulated time; pausing lets it pass.
  HostTime Time();
  SimulatedState& state() { return *state_; }

 private:
  std::shared_ptr<SimulatedState> state_;
  int opened_ = 0;
};

}  // namespace gpueta
