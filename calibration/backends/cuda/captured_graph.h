// A captured graph that is destroyed with its owner.
#pragma once

#include "absl/status/statusor.h"
#include "calibration/backends/cuda/driver/cuda_device.h"

namespace gpueta {

// The device must outlive it.
class CapturedGraph {
 public:
  explicit CapturedGraph(CudaDevice& device) : device_(device) {}
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph() { Reset(); }

  // Replaces it by what `enqueue` puts on the stream.
  template <class Enqueue>
  absl::Status Capture(StreamHandle stream, const Enqueue& enqueue) {
    Reset();
    absl::Status status = device_.BeginCapture(stream);
    if (!status.ok()) return status;
    status = enqueue();
    absl::StatusOr<GraphHandle> graph = device_.EndCapture(stream);
    if (!graph.ok()) return status.ok() ? graph.status() : status;
    graph_ = *graph;
    captured_ = true;
    if (!status.ok()) Reset();
    return status;
  }
  absl::Status Launch(StreamHandle stream) { return device_.LaunchGraph(graph_, stream); }
  // Destroys it. Nothing if there is none.
  void Reset() {
    if (captured_) device_.DestroyGraph(graph_).IgnoreError();
    captured_ = false;
  }

 private:
  CudaDevice& device_;
  GraphHandle graph_{};
  bool captured_ = false;
};

}  // namespace gpueta
