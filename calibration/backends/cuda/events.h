// Events of one device that are destroyed with their owner.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"

namespace gpueta {

// The device must outlive it.
class Events {
 public:
  explicit Events(CudaDevice& device) : device_(device) {}
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    for (EventHandle event : events_) device_.DestroyEvent(event).IgnoreError();
  }

  // At least so many.
  absl::Status Reserve(std::size_t count) {
    while (events_.size() < count) {
      absl::StatusOr<EventHandle> event = device_.CreateEvent();
      if (!event.ok()) return event.status();
      events_.push_back(*event);
    }
    return absl::OkStatus();
  }
  EventHandle operator[](std::size_t i) const { return events_[i]; }
  // Between events i and i + 1.
  absl::StatusOr<double> ElapsedUs(std::size_t i) const { return device_.ElapsedUs(events_[i], events_[i + 1]); }

 private:
  CudaDevice& device_;
  std::vector<EventHandle> events_;
};

}  // namespace gpueta
