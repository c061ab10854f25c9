#include "calibration/backends/cuda/prepared_kernel.h"

#include <algorithm>
#include <string>
#include <utility>

#include "calibration/backends/cuda/captured_graph.h"
#include "calibration/backends/cuda/events.h"
#include "calibration/backends/cuda/timing/activities.h"
#include "core/base/errors.h"
#include "core/ops/launch.h"

namespace gpueta {
namespace {

class PreparedCudaKernel : public PreparedKernel {
 public:
  PreparedCudaKernel(const Kernel& kernel, std::unique_ptr<Operation> operation, std::string source,
                     CudaContext& context)
      : what_(Describe(kernel)),
        operation_(std::move(operation)),
        source_(std::move(source)),
        context_(context),
        launch_(operation_->launch()),
        gradient_(!GradientOf({.work = kernel.work, .launch = launch_}).empty()),
        events_(context.device),
        graph_(context.device) {}

  absl::Status Init(DType dtype) {
    GPUETA_ASSIGN_OR_RETURN(
        operands_, context_.memory.ForKernel(operation_->bytes(), dtype, context_.options.l2 == L2State::kAsInModel));
    GPUETA_RETURN_IF_ERROR(events_.Reserve(2));
    if (Flushes()) GPUETA_RETURN_IF_ERROR(context_.memory.FlushL2());
    // Libraries set things up when they run a kernel for the first time.
    GPUETA_RETURN_IF_ERROR(RunOnce());
    if (context_.activities == nullptr) return absl::OkStatus();
    GPUETA_ASSIGN_OR_RETURN(const std::vector<KernelActivity> activities, Recorded(1));
    Launch recorded = LaunchOf(activities, launch_);
    if (gradient_) recorded.kernel = std::move(launch_.kernel);  // what is computed is in it
    launch_ = std::move(recorded);
    return absl::OkStatus();
  }

  absl::StatusOr<Sample> TakeSample(std::size_t runs) override {
    if (pause_us_ > 0) GPUETA_RETURN_IF_ERROR(context_.PauseAndWarmUp(pause_us_, [this] { return RunOnce(); }));
    const CardState before = context_.StateNow();
    GPUETA_ASSIGN_OR_RETURN(const double latency_us, LatencyUs(runs));
    const CardState after = context_.StateNow();
    const Condition condition = context_.clocks.ConditionOf(before, after);
    pause_us_ = context_.cool_down.PauseUs(condition, context_.time.now());
    return Sample{.latency_us = latency_us, .condition = condition};
  }

  Timing timing() const override { return context_.options.timing; }
  Launch launch() const override { return launch_; }
  std::string source() const override { return source_; }

 private:
  bool Flushes() const { return context_.options.l2 == L2State::kFlushed; }

  absl::Status Enqueue() { return operation_->Enqueue(operands_.OfRun(run_++), context_.stream); }
  // Waits for an event rather than the stream, which a kernel that hangs would
  // block for ever.
  absl::Status Drain(std::size_t event) {
    GPUETA_RETURN_IF_ERROR(context_.device.Record(events_[event], context_.stream));
    return Await(context_.device, events_[event], what_, context_.time, context_.options.hung_after_us);
  }
  absl::Status RunOnce() {
    GPUETA_RETURN_IF_ERROR(Enqueue());
    return Drain(0);
  }

  absl::StatusOr<double> LatencyUs(std::size_t runs) {
    switch (context_.options.timing) {
      case Timing::kEager: return ByLaunches(runs);
      case Timing::kGraph: return ByGraph(runs);
      case Timing::kKernel: break;
    }
    GPUETA_ASSIGN_OR_RETURN(const std::vector<KernelActivity> activities, Recorded(runs));
    return DeviceTimeUs(activities) / static_cast<double>(runs);
  }

  // Each on an idle stream, so that the host's part is in it.
  absl::StatusOr<double> ByLaunches(std::size_t runs) {
    double total_us = 0;
    for (std::size_t run = 0; run < runs; ++run) {
      if (Flushes()) GPUETA_RETURN_IF_ERROR(context_.memory.FlushL2());
      GPUETA_RETURN_IF_ERROR(Drain(0));
      GPUETA_RETURN_IF_ERROR(context_.device.Record(events_[0], context_.stream));
      GPUETA_RETURN_IF_ERROR(Enqueue());
      GPUETA_RETURN_IF_ERROR(Drain(1));
      GPUETA_ASSIGN_OR_RETURN(const double elapsed_us, events_.ElapsedUs(0));
      total_us += elapsed_us;
    }
    return total_us / static_cast<double>(runs);
  }

  // Events inside the graph: starting it is not in the time. Flushing is between
  // runs, so that each needs two events of its own.
  absl::StatusOr<double> ByGraph(std::size_t runs) {
    const std::size_t spans = Flushes() ? runs : 1;
    if (runs != captured_runs_) {
      GPUETA_RETURN_IF_ERROR(events_.Reserve(2 * spans + 1));
      GPUETA_RETURN_IF_ERROR(graph_.Capture(context_.stream, [&] { return EnqueueSpans(spans, runs / spans); }));
      captured_runs_ = runs;
    }
    GPUETA_RETURN_IF_ERROR(graph_.Launch(context_.stream));
    // Events of a graph look reached from the launch before until it runs again.
    GPUETA_RETURN_IF_ERROR(Drain(2 * spans));
    double total_us = 0;
    for (std::size_t span = 0; span < spans; ++span) {
      GPUETA_ASSIGN_OR_RETURN(const double elapsed_us, events_.ElapsedUs(2 * span));
      total_us += elapsed_us;
    }
    return total_us / static_cast<double>(runs);
  }
  absl::Status EnqueueSpans(std::size_t spans, std::size_t runs) {
    for (std::size_t span = 0; span < spans; ++span) {
      if (Flushes()) GPUETA_RETURN_IF_ERROR(context_.memory.FlushL2());
      GPUETA_RETURN_IF_ERROR(context_.device.Record(events_[2 * span], context_.stream));
      for (std::size_t run = 0; run < runs; ++run) GPUETA_RETURN_IF_ERROR(Enqueue());
      GPUETA_RETURN_IF_ERROR(context_.device.Record(events_[2 * span + 1], context_.stream));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<KernelActivity>> Recorded(std::size_t runs) {
    GPUETA_RETURN_IF_ERROR(Drain(0));
    GPUETA_RETURN_IF_ERROR(context_.activities->Start());
    for (std::size_t run = 0; run < runs; ++run) {
      if (Flushes()) GPUETA_RETURN_IF_ERROR(context_.memory.FlushL2());
      GPUETA_RETURN_IF_ERROR(Enqueue());
    }
    GPUETA_RETURN_IF_ERROR(Drain(0));
    return context_.activities->Stop();
  }

  std::string what_;
  std::unique_ptr<Operation> operation_;
  std::string source_;
  CudaContext& context_;
  Launch launch_;
  bool gradient_;
  KernelOperands operands_;
  Events events_;
  CapturedGraph graph_;
  std::size_t captured_runs_ = 0;
  std::size_t run_ = 0;
  double pause_us_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedKernel>> PrepareCudaKernel(const Kernel& kernel,
                                                                  std::unique_ptr<Operation> operation,
                                                                  const std::string& source, CudaContext& context) {
  auto prepared = std::make_unique<PreparedCudaKernel>(kernel, std::move(operation), source, context);
  GPUETA_RETURN_IF_ERROR(prepared->Init(kernel.dtype));
  return prepared;
}

}  // namespace gpueta
