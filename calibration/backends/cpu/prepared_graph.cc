#include "calibration/backends/cpu/prepared_graph.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "calibration/backends/cpu/buffers.h"
#include "calibration/backends/cpu/operators.h"
#include "calibration/backends/cpu/weight_pool.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

class PreparedCpuGraph : public PreparedGraph {
 public:
  explicit PreparedCpuGraph(CpuContext& context) : context_(context), scope_(context.Scope()) {}

  absl::Status Init(std::span<const Kernel> kernels) {
    std::vector<CpuOperator> operators;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      auto op = MakeCpuOperator(kernels[i], context_.onednn);
      if (!op.ok()) return Prefixed(op.status(), fmt::format("kernel {} ({})", i, Describe(kernels[i])));
      operators.push_back(*std::move(op));
    }
    // All kernels of a model have one dtype, but for a few that do not matter.
    GPUETA_RETURN_IF_ERROR(Allocate(operators, kernels.empty() ? DType::kFp32 : kernels.front().dtype));
    std::byte* weights = weights_.data();
    for (std::size_t i = 0; i < operators.size(); ++i) {
      Buffers buffers{.weights = weights, .output = Activation(i), .scratch = scratch_.data()};
      for (std::size_t input = 0; input < kMaxInputs; ++input) {
        buffers.inputs[input] = Activation(i + kRing - 1 - input);
      }
      runs_.push_back(operators[i].bind(buffers));
      weights += RoundUpToLine(operators[i].sizes.weights);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<GraphSample> Run() override {
    return CatchingOneDnn([this] { return RunAll(); });
  }

  Timing timing() const override { return Timing::kEager; }

 private:
  static constexpr std::size_t kRing = kMaxInputs + 1;

  absl::Status Allocate(std::span<const CpuOperator> operators, DType dtype) {
    std::size_t weights = 0;
    std::size_t activation = 0;
    std::size_t scratch = 0;
    for (const CpuOperator& op : operators) {
      weights += RoundUpToLine(op.sizes.weights);
      activation = std::max({activation, op.sizes.output, *std::ranges::max_element(op.sizes.inputs)});
      scratch = std::max(scratch, op.sizes.scratch);
    }
    GPUETA_ASSIGN_OR_RETURN(weights_, Buffer::Random(weights, dtype, kWeightScale, "weights"));
    GPUETA_ASSIGN_OR_RETURN(scratch_, Buffer::Random(scratch, dtype, kActivationScale, "activations"));
    for (Buffer& buffer : activations_) {
      GPUETA_ASSIGN_OR_RETURN(buffer, Buffer::Random(activation, dtype, kActivationScale, "activations"));
    }
    return absl::OkStatus();
  }

  std::byte* Activation(std::size_t kernel) const { return activations_[kernel % kRing].data(); }

  absl::StatusOr<GraphSample> RunAll() {
    const Condition placement = context_.PlacementNow();
    GraphSample sample;
    sample.kernels.reserve(runs_.size());
    const Interference before = context_.monitor.Read(InterferenceMonitor::Steal::kRead);
    double total_us = 0;
    for (const RunOnce& run : runs_) {
      Sample kernel = TimeOnce(run, context_.monitor);
      kernel.condition = std::max(kernel.condition, placement);
      total_us += kernel.latency_us;
      sample.kernels.push_back(kernel);
    }
    const Interference after = context_.monitor.Read(InterferenceMonitor::Steal::kRead);
    sample.condition = std::max(placement, Between(before, after, total_us));
    return sample;
  }

  CpuContext& context_;
  std::shared_ptr<const MeasuringScope> scope_;
  Buffer weights_;
  Buffer scratch_;
  std::array<Buffer, kRing> activations_;
  std::vector<RunOnce> runs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedGraph>> PrepareCpuGraph(std::span<const Kernel> kernels, CpuContext& context) {
  auto prepared = std::make_unique<PreparedCpuGraph>(context);
  GPUETA_RETURN_IF_ERROR(CatchingOneDnn([&] { return prepared->Init(kernels); }));
  return prepared;
}

}  // namespace gpueta
