// On a simulated device, whose library of products stands in for cuBLASLt.
#include "calibration/backends/cuda/ops/moe/moe_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/ops/moe/routing.h"
#include "calibration/backends/cuda/simulated/simulated_library.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPtx = ".entry gather_bf16( .entry silu_gate_bf16( .entry combine_bf16(";

struct Bench {
  SimulatedDriver driver{SimulatedGpu{}};
  std::unique_ptr<SimulatedDevice> device = driver.OpenSimulated();
  std::unique_ptr<OperatorLibrary> products = MakeSimulatedLibrary(*device);
  std::unique_ptr<OperatorLibrary> library = LoadMoeLibrary(*device, *products, kPtx).value();
};

Kernel MoeKernel(const std::string& distribution = "balanced") {
  return {.dtype = DType::kBf16,
          .work = Moe{.num_tokens = 64,
                      .hidden_size = 256,
                      .inter_size = 512,
                      .top_k = 2,
                      .num_experts = 8,
                      .tp = 2,
                      .ep = 2,
                      .distribution = distribution}};
}

TEST(MoeLibraryTest, RunsTwoProductsOfEachChosenExpert) {
  Bench bench;
  const auto operation = bench.library->Prepare(MoeKernel());
  ASSERT_TRUE(operation.ok()) << operation.status();
  const OperandBytes& bytes = (*operation)->bytes();
  EXPECT_EQ(bytes.inputs[0], 64U * 256 * 2);
  EXPECT_EQ(bytes.output, 64U * 256 * 2);
  EXPECT_EQ(bytes.weights, 4U * 3 * 256 * 256 * 2);  // half of the experts, half of each
  const StreamHandle stream = bench.device->CreateStream().value();
  ASSERT_TRUE((*operation)->Enqueue({}, stream).ok());
  EXPECT_EQ(bench.driver.state().launches, 3U + 2 * 4);
}

TEST(MoeLibraryTest, ExpertsThatNobodyChoseDoNotRun) {
  Bench bench;
  Kernel kernel = MoeKernel();
  std::get<Moe>(kernel.work).num_tokens = 1;
  const auto operation = bench.library->Prepare(kernel);
  ASSERT_TRUE(operation.ok()) << operation.status();
  ASSERT_TRUE((*operation)->Enqueue({}, bench.device->CreateStream().value()).ok());
  EXPECT_EQ(bench.driver.state().launches, 3U + 2 * 1);  // of two chosen experts one is on this rank
}

TEST(MoeLibraryTest, SaysWhatItCannotDo) {
  Bench bench;
  const absl::Status spread = bench.library->Supports(MoeKernel("zipf"));
  EXPECT_EQ(spread.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(spread), HasSubstr("zipf"));
  Kernel kernel = MoeKernel();
  kernel.dtype = DType::kFp8;
  EXPECT_THAT(MessageOf(bench.library->Supports(kernel)), HasSubstr("fp8"));
}

TEST(MoeLibraryTest, ThePtxHasItsKernels) {
  if (MoeKernelsPtx().empty()) GTEST_SKIP() << "built without the CUDA toolkit";
  for (const char* entry : {"gather_fp32(", "silu_gate_fp16(", "combine_bf16("}) {
    EXPECT_THAT(std::string(MoeKernelsPtx()), HasSubstr(std::string(".entry ") + entry));
  }
}

}  // namespace
}  // namespace gpueta
