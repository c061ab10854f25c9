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
constexpr const char* kFp8Ptx = ".entry gather_fp8( .entry silu_gate_fp8(";

SimulatedGpu WithFp8() {
  SimulatedGpu gpu;
  gpu.properties.compute_major = 9;
  return gpu;
}

struct Bench {
  explicit Bench(SimulatedGpu gpu = {}, std::string_view fp8_ptx = kFp8Ptx)
      : driver(std::move(gpu)), library(LoadMoeLibrary(*device, *products, kPtx, fp8_ptx).value()) {}

  SimulatedDriver driver;
  std::unique_ptr<SimulatedDevice> device = driver.OpenSimulated();
  std::unique_ptr<OperatorLibrary> products = MakeSimulatedLibrary(*device);
  std::unique_ptr<OperatorLibrary> library;
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
  EXPECT_THAT(MessageOf(bench.library->Supports(kernel)), HasSubstr("fp8: compute capability 8.0"));
  EXPECT_THAT(MessageOf(Bench(WithFp8(), "").library->Supports(kernel)), HasSubstr("fp8: "));
  std::get<Moe>(kernel.work).hidden_size = 250;
  EXPECT_THAT(MessageOf(Bench(WithFp8()).library->Supports(kernel)), HasSubstr("multiples of 16"));
  kernel.dtype = DType::kInt8;
  EXPECT_THAT(MessageOf(bench.library->Supports(kernel)), HasSubstr("int8"));
}

// Tokens and weights of a byte, what products make of two; rows gathered, activated and
// added up by kernels that there are.
TEST(MoeLibraryTest, Fp8ComesInAsBytesAndGoesOutAsBf16) {
  Bench bench(WithFp8());
  Kernel kernel = MoeKernel();
  kernel.dtype = DType::kFp8;
  const auto operation = bench.library->Prepare(kernel);
  ASSERT_TRUE(operation.ok()) << operation.status();
  const OperandBytes& bytes = (*operation)->bytes();
  EXPECT_EQ(bytes.inputs[0], 64U * 256);
  EXPECT_EQ(bytes.output, 64U * 256 * 2);
  EXPECT_EQ(bytes.weights, 4U * 3 * 256 * 256);
  // 64 choices of rank 0, each a row taken, projected, gated and returned.
  EXPECT_GE(bytes.workspace, 64U * (256 + 2 * 256 * 2 + 256 + 256 * 2));
  const absl::Status enqueued = (*operation)->Enqueue({}, bench.device->CreateStream().value());
  ASSERT_TRUE(enqueued.ok()) << enqueued;
  EXPECT_EQ(bench.driver.state().launches, 3U + 2 * 4);
}

TEST(MoeLibraryTest, ThePtxHasItsKernels) {
  if (MoeKernelsPtx().empty()) GTEST_SKIP() << "built without the CUDA toolkit";
  for (const char* entry : {"gather_fp32(", "silu_gate_fp16(", "combine_bf16("}) {
    EXPECT_THAT(std::string(MoeKernelsPtx()), HasSubstr(std::string(".entry ") + entry));
  }
  for (const char* entry : {"gather_fp8(", "silu_gate_fp8("}) {
    EXPECT_THAT(std::string(MoeFp8KernelsPtx()), HasSubstr(std::string(".entry ") + entry));
  }
  EXPECT_THAT(std::string(MoeFp8KernelsPtx()), HasSubstr("cvt.rn.satfinite.e4m3x2"));  // in hardware
}

}  // namespace
}  // namespace gpueta
