// A device that kernels are run on.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibration/backends/timing.h"
#include "core/device/spec.h"
#include "core/ops/kernel.h"
#include "core/ops/timing.h"

namespace gpueta {

// A kernel ready to run, with its buffers. Uses its backend, which must
// outlive it.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  // Runs it `runs` times back to back, as within a model: weights cold (other
  // layers ran since), activations warm (the layer before just wrote them).
  virtual absl::StatusOr<Sample> TakeSample(std::size_t runs) = 0;
  virtual Timing timing() const = 0;
  // How the library launches it, where the backend can tell.
  virtual Launch launch() const { return {}; }
  // Where the latency comes from, for Measurement::source.
  virtual std::string source() const = 0;
};

struct GraphSample {
  std::vector<Sample> kernels;                    // in order
  Condition condition = Condition::kUndisturbed;  // of the run as a whole: a small part may be spoilt
};

// Kernels ready to run back to back, each with its own weights, handing on
// activations. Uses its backend, which must outlive it.
class PreparedGraph {
 public:
  virtual ~PreparedGraph() = default;
  // Runs all once, in order.
  virtual absl::StatusOr<GraphSample> Run() = 0;
  virtual Timing timing() const = 0;
};

// Not thread-safe: used from the thread that opened it.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string slug() const = 0;
  // Of the kernels it prepares.
  virtual Timing timing() const { return Timing::kEager; }
  // How its kernels are best timed.
  virtual TimingPolicy timing_policy() const { return {}; }
  // Software and settings that latencies depend on, for the profile.
  virtual std::map<std::string, std::string> labels() const = 0;
  // Other devices of this machine that it uses too, named as labels name its own
  // ("uuid").
  virtual std::vector<std::string> peers() const { return {}; }
  // What it cannot do here for want of something, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
  // May measure, for up to about five seconds.
  virtual absl::StatusOr<DeviceSpec> Describe() = 0;

  // What parts of the device do at most, by kernels that do nothing else, named with the
  // unit, e.g. "l2_latency_ns"; for people. May measure, for some seconds.
  virtual absl::StatusOr<std::map<std::string, double>> MeasureLimits() {
    return absl::UnimplementedError("not measured");
  }

  // Host time to issue one kernel in eager mode, in µs.
  virtual absl::StatusOr<double> MeasureHostIssueUs() { return absl::UnimplementedError("not measured"); }

  // Whether something else uses the device, or a peer, now. May pause for a second or two to find
  // out; to be asked when the backend itself does nothing.
  virtual absl::StatusOr<bool> UsedByOthers() { return false; }

  // UNIMPLEMENTED saying what is missing; INVALID_ARGUMENT naming the field
  // for a kernel that no device can run. Cheap.
  virtual absl::Status Supports(const Kernel& kernel) const = 0;
  // The same kernel by each algorithm that the library has for it, named in
  // launch.kernel; what Prepare then runs. Empty where there is no choice.
  virtual std::vector<Kernel> Algorithms(const Kernel&) { return {}; }
  // As Supports; RESOURCE_EXHAUSTED when the buffers do not fit; NOT_FOUND for
  // a kernel that a replay has no row for.
  virtual absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Kernel& kernel) = 0;
  // As Prepare for all kernels, in the order they run; errors name the kernel.
  virtual absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareGraph(std::span<const Kernel> kernels) = 0;
};

}  // namespace gpueta
