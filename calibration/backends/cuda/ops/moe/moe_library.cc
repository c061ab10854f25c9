#include "calibration/backends/cuda/ops/moe/moe_library.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/cuda/driver/kernel_module.h"
#include "calibration/backends/cuda/ops/moe/routing.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::uint32_t kThreads = 256;   // as in moe_rows.cuh
constexpr std::int64_t kPlacement = 256;  // bytes; products' heuristics count on it

std::int64_t Aligned(std::int64_t bytes) { return (bytes + kPlacement - 1) / kPlacement * kPlacement; }

// Rows after which rows of all widths begin at multiples of kPlacement.
std::int64_t RowAlignment(std::initializer_list<std::int64_t> row_bytes) {
  std::int64_t rows = 1;
  while (std::ranges::any_of(row_bytes, [&](std::int64_t bytes) { return rows * bytes % kPlacement != 0; })) rows *= 2;
  return rows;
}

std::int64_t InterOf(const Moe& moe) { return moe.inter_size / moe.tp; }

class MoeOperation : public Operation {
 public:
  // `rows` has what gathers and activates, `sums` what combines.
  MoeOperation(KernelModule& rows, KernelModule& sums, const Moe& moe, DType dtype, Routing routing)
      : row_kernels_(rows),
        sum_kernels_(sums),
        moe_(moe),
        suffix_(fmt::format("_{}", Name(dtype))),
        sum_suffix_(fmt::format("_{}", Name(dtype == DType::kFp8 ? DType::kBf16 : dtype))),
        routing_(std::move(routing)),
        element_(BitsOf(dtype).activation / 8),
        weight_(BitsOf(dtype).weight / 8),
        output_(BitsOf(dtype).output / 8) {}

  absl::Status Init(CudaDevice& device, OperatorLibrary& products, DType dtype) {
    const std::int64_t hidden = moe_.hidden_size;
    const std::int64_t inter = InterOf(moe_);
    std::size_t product_workspace = 0;
    const auto prepare = [&](std::map<std::int64_t, std::unique_ptr<Operation>>& made, std::int64_t rows,
                             std::int64_t columns, std::int64_t depth) -> absl::Status {
      std::unique_ptr<Operation>& operation = made[rows];
      if (operation != nullptr) return absl::OkStatus();
      const Kernel product{.dtype = dtype,
                           .work = Gemm{.layer = Gemm::Layer::kLinear, .m = rows, .n = columns, .k = depth}};
      absl::StatusOr<std::unique_ptr<Operation>> prepared = products.Prepare(product);
      if (!prepared.ok()) return Prefixed(prepared.status(), Describe(product));
      operation = *std::move(prepared);
      product_workspace = std::max(product_workspace, operation->bytes().workspace);
      return absl::OkStatus();
    };
    for (const Routing::Expert& expert : routing_.experts) {
      GPUETA_RETURN_IF_ERROR(prepare(gate_up_, expert.rows, 2 * inter, hidden));
      GPUETA_RETURN_IF_ERROR(prepare(down_, expert.rows, hidden, inter));
    }
    const auto put = [&](DeviceBuffer& buffer, const std::vector<std::int32_t>& values) -> absl::Status {
      if (values.empty()) return absl::OkStatus();
      GPUETA_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(device, values.size() * sizeof(std::int32_t)));
      return device.CopyToDevice(buffer.pointer(), std::as_bytes(std::span(values)));
    };
    GPUETA_RETURN_IF_ERROR(put(tokens_, routing_.tokens));
    GPUETA_RETURN_IF_ERROR(put(rows_, routing_.rows));
    GPUETA_RETURN_IF_ERROR(put(token_begins_, routing_.token_begins));
    GPUETA_RETURN_IF_ERROR(put(token_rows_, routing_.token_rows));

    gate_up_bytes_ = Aligned(2 * inter * hidden * weight_);
    expert_bytes_ = gate_up_bytes_ + Aligned(hidden * inter * weight_);
    bytes_.inputs[0] = Size(moe_.num_tokens * hidden * element_);
    bytes_.output = Size(moe_.num_tokens * hidden * output_);
    bytes_.weights = Size(routing_.experts_on_rank * expert_bytes_);
    // Behind the products' workspace: rows as experts take them, then what each step makes.
    std::int64_t at = Aligned(static_cast<std::int64_t>(product_workspace));
    const auto place = [&](std::int64_t& offset, std::int64_t row_bytes) {
      offset = at;
      at += Aligned(routing_.row_count * row_bytes);
    };
    place(taken_, hidden * element_);
    place(projected_, 2 * inter * output_);
    place(gated_, inter * element_);
    place(returned_, hidden * output_);
    bytes_.workspace = Size(at);
    return absl::OkStatus();
  }

  const OperandBytes& bytes() const override { return bytes_; }
  Launch launch() const override { return {.kernel = "gpueta_moe" + suffix_}; }

  absl::Status Enqueue(const Operands& operands, StreamHandle stream) override {
    const long long hidden = moe_.hidden_size;
    const long long inter = InterOf(moe_);
    const auto choices = static_cast<std::uint32_t>(routing_.tokens.size());
    const DevicePointer taken = operands.workspace + Size(taken_);
    const DevicePointer projected = operands.workspace + Size(projected_);
    const DevicePointer gated = operands.workspace + Size(gated_);
    const DevicePointer returned = operands.workspace + Size(returned_);
    if (choices > 0) {
      GPUETA_RETURN_IF_ERROR(row_kernels_.Launch("gather" + suffix_, choices, kThreads, stream, taken,
                                                 operands.inputs[0], tokens_.pointer(), rows_.pointer(), hidden));
      GPUETA_RETURN_IF_ERROR(Products(gate_up_, operands, stream, taken, hidden, projected, 2 * inter, 0));
      GPUETA_RETURN_IF_ERROR(row_kernels_.Launch("silu_gate" + suffix_, choices, kThreads, stream, gated, projected,
                                                 rows_.pointer(), inter));
      GPUETA_RETURN_IF_ERROR(Products(down_, operands, stream, gated, inter, returned, hidden, Size(gate_up_bytes_)));
    }
    const float share = 1 / static_cast<float>(moe_.top_k);
    return sum_kernels_.Launch("combine" + sum_suffix_, static_cast<std::uint32_t>(moe_.num_tokens), kThreads, stream,
                               operands.output, returned, token_begins_.pointer(), token_rows_.pointer(), share,
                               hidden);
  }

 private:
  static std::size_t Size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

  // Of each chosen expert, its rows of `in` to its rows of `out`, by the weights at an offset
  // of its own.
  absl::Status Products(std::map<std::int64_t, std::unique_ptr<Operation>>& by_rows, const Operands& operands,
                        StreamHandle stream, DevicePointer in, std::int64_t in_columns, DevicePointer out,
                        std::int64_t out_columns, std::size_t weights_offset) {
    for (const Routing::Expert& expert : routing_.experts) {
      Operands product;
      product.inputs[0] = in + Size(expert.first_row * in_columns * element_);
      product.weights = operands.weights + Size(expert.index * expert_bytes_) + weights_offset;
      product.output = out + Size(expert.first_row * out_columns * output_);
      product.workspace = operands.workspace;
      const absl::Status status = by_rows.at(expert.rows)->Enqueue(product, stream);
      if (!status.ok()) return Prefixed(status, fmt::format("expert {}, {} rows", expert.index, expert.rows));
    }
    return absl::OkStatus();
  }

  KernelModule& row_kernels_;
  KernelModule& sum_kernels_;
  Moe moe_;
  std::string suffix_, sum_suffix_;
  Routing routing_;
  std::int64_t element_, weight_, output_;                      // bytes
  std::map<std::int64_t, std::unique_ptr<Operation>> gate_up_;  // by rows
  std::map<std::int64_t, std::unique_ptr<Operation>> down_;
  DeviceBuffer tokens_, rows_, token_begins_, token_rows_;
  std::int64_t gate_up_bytes_ = 0;
  std::int64_t expert_bytes_ = 0;
  std::int64_t taken_ = 0, projected_ = 0, gated_ = 0, returned_ = 0;  // offsets in the workspace
  OperandBytes bytes_;
};

class MoeLibrary : public OperatorLibrary {
 public:
  MoeLibrary(CudaDevice& device, OperatorLibrary& products, KernelModule kernels,
             absl::StatusOr<KernelModule> fp8_kernels)
      : device_(device), products_(products), kernels_(std::move(kernels)), fp8_kernels_(std::move(fp8_kernels)) {}

  std::string name() const override { return "gpueta-moe"; }
  std::string version() const override { return GPUETA_VERSION; }

  absl::Status Supports(const Kernel& kernel) const override {
    const auto* moe = std::get_if<Moe>(&kernel.work);
    if (moe == nullptr) return absl::UnimplementedError("mixtures of experts only");
    if (kernel.dtype == DType::kFp8) {
      if (!fp8_kernels_.ok()) {
        return absl::UnimplementedError(
            fmt::format("mixtures of experts in fp8: {}", MessageOf(fp8_kernels_.status())));
      }
      constexpr std::int64_t kRow = 16;  // of fp8 products, in elements
      if (moe->hidden_size % kRow != 0 || InterOf(*moe) % kRow != 0) {
        return absl::UnimplementedError(
            "fp8 products need a hidden_size and an inter_size / tp that are multiples of 16");
      }
    } else if (kernel.dtype != DType::kFp32 && kernel.dtype != DType::kFp16 && kernel.dtype != DType::kBf16) {
      return absl::UnimplementedError(fmt::format("mixtures of experts in {}", Name(kernel.dtype)));
    }
    if (InterOf(*moe) < 1) return absl::UnimplementedError("more ranks than an expert's inter_size");
    GPUETA_RETURN_IF_ERROR(
        ExpertLoads({.num_tokens = 1, .top_k = 1, .num_experts = 1, .distribution = moe->distribution}).status());
    return products_.Supports(
        {.dtype = kernel.dtype, .work = Gemm{.layer = Gemm::Layer::kLinear, .m = 1, .n = 1, .k = 1}});
  }

  absl::StatusOr<std::unique_ptr<Operation>> Prepare(const Kernel& kernel) override {
    GPUETA_RETURN_IF_ERROR(Supports(kernel));
    const auto& moe = std::get<Moe>(kernel.work);
    const std::int64_t element = BitsOf(kernel.dtype).activation / 8;
    GPUETA_ASSIGN_OR_RETURN(Routing routing,
                            RouteTokens(moe, RowAlignment({moe.hidden_size * element, InterOf(moe) * element})));
    KernelModule& rows = kernel.dtype == DType::kFp8 ? *fp8_kernels_ : kernels_;
    auto operation = std::make_unique<MoeOperation>(rows, kernels_, moe, kernel.dtype, std::move(routing));
    GPUETA_RETURN_IF_ERROR(operation->Init(device_, products_, kernel.dtype));
    return operation;
  }

 private:
  CudaDevice& device_;
  OperatorLibrary& products_;
  KernelModule kernels_;
  absl::StatusOr<KernelModule> fp8_kernels_;
};

constexpr int kConvertsFp8 = 89;  // compute capability

absl::StatusOr<KernelModule> LoadFp8(CudaDevice& device, std::string_view ptx) {
  const int capability = device.properties().compute_capability();
  if (capability >= kConvertsFp8) return KernelModule::Load(device, ptx);
  return absl::UnimplementedError(fmt::format("compute capability {}.{}", capability / 10, capability % 10));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OperatorLibrary>> LoadMoeLibrary(CudaDevice& device, OperatorLibrary& products,
                                                                std::string_view ptx, std::string_view fp8_ptx) {
  GPUETA_ASSIGN_OR_RETURN(KernelModule kernels, KernelModule::Load(device, ptx));
  return std::make_unique<MoeLibrary>(device, products, std::move(kernels), LoadFp8(device, fp8_ptx));
}

}  // namespace gpueta
