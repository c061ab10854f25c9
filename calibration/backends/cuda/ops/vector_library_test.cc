#include "calibration/backends/cuda/ops/vector_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/simulated/simulated_driver.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::string_view kPtx =
    ".visible .entry add_2_fp16(\n)\n.visible .entry softmax_1_fp32(\n)\n.visible .entry layernorm_1_fp32(\n)\n";

Kernel VectorKernel(const std::string& op, std::int64_t rows, std::int64_t cols, std::int64_t operands, DType dtype) {
  return {.dtype = dtype, .work = Vector{.op = op, .rows = rows, .cols = cols, .operands = operands}};
}

class VectorLibraryTest : public testing::Test {
 protected:
  SimulatedDriver driver_{{}};
  std::unique_ptr<SimulatedDevice> device_ = driver_.OpenSimulated();
  std::unique_ptr<OperatorLibrary> library_ = LoadVectorLibrary(*device_, kPtx).value();
};

TEST_F(VectorLibraryTest, RunsWhatThePtxHas) {
  EXPECT_TRUE(library_->Supports(VectorKernel("add", 8, 8, 2, DType::kFp16)).ok());
  for (const Kernel& kernel :
       {VectorKernel("add", 8, 8, 1, DType::kFp16), VectorKernel("add", 8, 8, 2, DType::kFp32),
        VectorKernel("nonsense", 8, 8, 1, DType::kFp32), Kernel{.work = Gemm{.m = 1, .n = 1, .k = 1}}}) {
    EXPECT_EQ(library_->Supports(kernel).code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(library_->Prepare(kernel).status().code(), absl::StatusCode::kUnimplemented);
  }
}

TEST_F(VectorLibraryTest, ElementwiseKernelsCoverAllElements) {
  // 16 bytes a thread: 1024 halves a block of 128.
  for (const auto& [elements, blocks] : {std::pair{1, 1}, {1'024, 1}, {1'025, 2}, {1'000'000, 977}}) {
    const auto operation = library_->Prepare(VectorKernel("add", 1, elements, 2, DType::kFp16)).value();
    EXPECT_EQ(operation->launch().grid_x, blocks);
    EXPECT_EQ(operation->launch().block_x, 128);
    EXPECT_EQ(operation->launch().kernel, "gpueta_add_2_fp16");
    EXPECT_EQ(operation->bytes().inputs[1], static_cast<std::size_t>(elements) * 2);
  }
}

TEST_F(VectorLibraryTest, RowOperatorsHaveABlockARowAndTheirWeights) {
  const auto softmax = library_->Prepare(VectorKernel("softmax", 77, 1'000, 1, DType::kFp32)).value();
  EXPECT_EQ(softmax->launch().grid_x, 77);
  EXPECT_EQ(softmax->bytes().weights, 0U);
  const auto layernorm = library_->Prepare(VectorKernel("layernorm", 77, 1'000, 1, DType::kFp32)).value();
  EXPECT_EQ(layernorm->bytes().weights, 8'000U);
}

TEST_F(VectorLibraryTest, RefusesWhatIsNoPtx) {
  EXPECT_EQ(LoadVectorLibrary(*device_, "").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(VectorKernelsTest, ThePtxHasAnEntryForTheOperatorsOfModels) {
  if (VectorKernelsPtx().empty()) GTEST_SKIP() << "built without the CUDA toolkit";
  SimulatedDriver driver({});
  const auto device = driver.OpenSimulated();
  const auto library = LoadVectorLibrary(*device, VectorKernelsPtx());
  ASSERT_TRUE(library.ok()) << library.status();
  for (const char* op : {"copy",      "relu",    "gelu", "silu",      "tanh",      "sigmoid",       "softmax",
                         "layernorm", "rmsnorm", "rope", "embedding", "reduce",    "groupnorm",     "batchnorm",
                         "cumsum",    "resize",  "pool", "dropout",   "transpose", "clear_gradient"}) {
    for (DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
      EXPECT_TRUE((*library)->Prepare(VectorKernel(op, 16, 64, 1, dtype)).ok()) << op;
    }
  }
  for (const char* op : {"add", "mul", "sub", "div", "silu_mul", "where", "batchnorm", "accumulate_gradient"}) {
    EXPECT_TRUE((*library)->Prepare(VectorKernel(op, 16, 64, 2, DType::kBf16)).ok()) << op;
  }
  const auto pool = (*library)->Prepare(VectorKernel("pool", 16, 64, 9, DType::kFp16));
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->bytes().inputs[0], 9U * 16 * 64 * 2);  // one tensor
  EXPECT_EQ((*pool)->bytes().inputs[1], 0U);
  const auto adam = (*library)->Prepare(VectorKernel("adam", 16, 64, 6, DType::kFp32));
  ASSERT_TRUE(adam.ok()) << adam.status();
  for (const std::size_t input : (*adam)->bytes().inputs) EXPECT_EQ(input, 16U * 64 * 4);
  EXPECT_EQ((*library)->Prepare(VectorKernel("batchnorm", 16, 64, 1, DType::kFp32)).value()->bytes().weights, 128U);
  // 65 × 33 in tiles of 32.
  EXPECT_EQ((*library)->Prepare(VectorKernel("transpose", 65, 33, 1, DType::kFp32)).value()->launch().grid_x, 6);
}

}  // namespace
}  // namespace gpueta
