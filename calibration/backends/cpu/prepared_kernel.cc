#include "calibration/backends/cpu/prepared_kernel.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "calibration/backends/cpu/buffers.h"
#include "calibration/backends/cpu/loops.h"
#include "calibration/backends/cpu/openmp.h"
#include "calibration/backends/cpu/operators.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

// Leaves the caches as the kernels before would have done: what each core keeps
// to itself is full of other things (their weights, their code's data), but for
// the first input, which was written last, half of it on each of two threads.
// Without this, each thread finds its part in its own cache from the last run,
// which is up to three times too fast.
void HandOver(const BufferSizes& sizes, const Buffers& buffers, std::span<std::byte> others) {
  constexpr std::size_t kBlock = 4'096;  // small against the part of a thread, large against a line
#pragma omp parallel
  {
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const auto touch = [=](std::byte* data, std::size_t bytes) {
      for (std::size_t begin = thread * kBlock; begin < bytes; begin += threads * kBlock) {
        TouchLines(data + begin, std::min(kBlock, bytes - begin));
      }
    };
    touch(buffers.output, sizes.output);
    for (std::size_t i = kMaxInputs; i-- > 1;) touch(buffers.inputs[i], sizes.inputs[i]);
    const std::size_t share = others.size() / threads;
    TouchLines(others.data() + thread * share, share);
    touch(buffers.inputs[0], sizes.inputs[0]);
  }
}

class PreparedCpuKernel : public PreparedKernel {
 public:
  explicit PreparedCpuKernel(CpuContext& context) : context_(context), scope_(context.Scope()) {}

  absl::Status Init(const Kernel& kernel, WeightPool& weight_pool) {
    GPUETA_ASSIGN_OR_RETURN(const CpuOperator op, MakeCpuOperator(kernel, context_.onednn));
    sizes_ = op.sizes;
    for (std::size_t i = 0; i < kMaxInputs; ++i) {
      GPUETA_ASSIGN_OR_RETURN(buffers_.inputs[i], Activation(sizes_.inputs[i], kernel.dtype));
    }
    GPUETA_ASSIGN_OR_RETURN(buffers_.output, Activation(sizes_.output, kernel.dtype));
    GPUETA_ASSIGN_OR_RETURN(buffers_.scratch, Activation(sizes_.scratch, kernel.dtype));
    GPUETA_ASSIGN_OR_RETURN(weights_, weight_pool.Copies(sizes_.weights, kernel.dtype));
    for (std::size_t i = 0; i < weights_.count; ++i) {
      if (weights_.pool != nullptr) buffers_.weights = weights_.pool->data() + i * weights_.stride;
      runs_.push_back(op.bind(buffers_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Sample> TakeSample(std::size_t runs) override {
    return CatchingOneDnn([&]() -> absl::StatusOr<Sample> {
      Sample sample{.condition = context_.PlacementNow()};
      for (std::size_t run = 0; run < runs; ++run) {
        HandOver(sizes_, buffers_, context_.OthersData());
        const Sample one = TimeOnce(runs_[next_], context_.monitor);
        sample.latency_us += one.latency_us / static_cast<double>(runs);
        sample.condition = std::max(sample.condition, one.condition);
        next_ = (next_ + 1) % runs_.size();
      }
      return sample;
    });
  }

  Timing timing() const override { return Timing::kEager; }
  std::string source() const override { return "onednn"; }

 private:
  absl::StatusOr<std::byte*> Activation(std::size_t bytes, DType dtype) {
    if (bytes == 0) return nullptr;
    GPUETA_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Random(bytes, dtype, kActivationScale, "activations"));
    activations_.push_back(std::move(buffer));
    return activations_.back().data();
  }

  CpuContext& context_;
  std::shared_ptr<const MeasuringScope> scope_;
  BufferSizes sizes_;
  Buffers buffers_;
  std::vector<Buffer> activations_;
  WeightCopies weights_;
  std::vector<RunOnce> runs_;  // one a copy of the weights
  std::size_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedKernel>> PrepareCpuKernel(const Kernel& kernel, CpuContext& context,
                                                                 WeightPool& weight_pool) {
  auto prepared = std::make_unique<PreparedCpuKernel>(context);
  GPUETA_RETURN_IF_ERROR(CatchingOneDnn([&] { return prepared->Init(kernel, weight_pool); }));
  return prepared;
}

}  // namespace gpueta
