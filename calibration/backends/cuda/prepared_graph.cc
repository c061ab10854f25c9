#include "calibration/backends/cuda/prepared_graph.h"

#include <utility>

#include "calibration/backends/cuda/captured_graph.h"
#include "calibration/backends/cuda/events.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Eager or replayed as a CUDA graph; an event between each two kernels.
class PreparedCudaGraph : public PreparedGraph {
 public:
  PreparedCudaGraph(std::vector<std::unique_ptr<Operation>> operations, CudaContext& context)
      : operations_(std::move(operations)), context_(context), events_(context.device), graph_(context.device) {}

  absl::Status Init(DType dtype) {
    std::vector<OperandBytes> bytes;
    for (const auto& operation : operations_) bytes.push_back(operation->bytes());
    GPUETA_ASSIGN_OR_RETURN(operands_, context_.memory.ForModel(bytes, dtype));
    GPUETA_RETURN_IF_ERROR(events_.Reserve(operations_.size() + 2));
    GPUETA_RETURN_IF_ERROR(EnqueueAll());
    GPUETA_RETURN_IF_ERROR(Drain());
    return IsGraph() ? graph_.Capture(context_.stream, [this] { return EnqueueAll(); }) : absl::OkStatus();
  }

  absl::StatusOr<GraphSample> Run() override {
    if (pause_us_ > 0) GPUETA_RETURN_IF_ERROR(context_.PauseAndWarmUp(pause_us_, [this] { return RunOnce(); }));
    const CardState before = context_.StateNow();
    GPUETA_RETURN_IF_ERROR(RunOnce());
    const CardState after = context_.StateNow();
    GraphSample sample{.condition = context_.clocks.ConditionOf(before, after)};
    pause_us_ = context_.cool_down.PauseUs(sample.condition, context_.time.now());
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      GPUETA_ASSIGN_OR_RETURN(const double elapsed_us, events_.ElapsedUs(i));
      sample.kernels.push_back({.latency_us = elapsed_us, .condition = sample.condition});
    }
    return sample;
  }

  Timing timing() const override { return IsGraph() ? Timing::kGraph : Timing::kEager; }

 private:
  bool IsGraph() const { return context_.options.timing != Timing::kEager; }
  absl::Status EnqueueAll() {
    GPUETA_RETURN_IF_ERROR(context_.device.Record(events_[0], context_.stream));
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      GPUETA_RETURN_IF_ERROR(operations_[i]->Enqueue(operands_[i], context_.stream));
      GPUETA_RETURN_IF_ERROR(context_.device.Record(events_[i + 1], context_.stream));
    }
    return absl::OkStatus();
  }
  absl::Status RunOnce() {
    GPUETA_RETURN_IF_ERROR(IsGraph() ? graph_.Launch(context_.stream) : EnqueueAll());
    return Drain();
  }
  absl::Status Drain() {
    const EventHandle last = events_[operations_.size() + 1];
    GPUETA_RETURN_IF_ERROR(context_.device.Record(last, context_.stream));
    return Await(context_.device, last, "a model", context_.time, context_.options.hung_after_us);
  }

  std::vector<std::unique_ptr<Operation>> operations_;
  CudaContext& context_;
  std::vector<Operands> operands_;
  Events events_;
  CapturedGraph graph_;
  double pause_us_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareCudaGraph(std::vector<std::unique_ptr<Operation>> operations,
                                                                DType dtype, CudaContext& context) {
  auto prepared = std::make_unique<PreparedCudaGraph>(std::move(operations), context);
  GPUETA_RETURN_IF_ERROR(prepared->Init(dtype));
  return prepared;
}

}  // namespace gpueta
