#include "calibration/backends/manifest/manifest_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kExamples = {"examples/kernels/tiled_gemm.manifest",
                                            "examples/kernels/flash_attention.manifest"};
constexpr std::int64_t kMemory = std::int64_t{8} << 30;

TEST(ManifestKernelsTest, CandidatesAreFoundWithTheirLaunch) {
  auto kernels = ManifestKernels::Read(kExamples);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  const auto candidates = kernels->Candidates(50, kMemory, 1);
  ASSERT_TRUE(candidates.ok()) << candidates.status();
  EXPECT_GT(candidates->size(), 90u);
  for (const Kernel& kernel : *candidates) {
    const auto found = kernels->Find(kernel);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->manifest->name, std::get<Custom>(kernel.work).op);
    EXPECT_EQ(found->launch->grid[0], kernel.launch.grid_x);
    EXPECT_EQ(found->launch->arguments.size(), found->manifest->arguments.size());
    EXPECT_EQ(found->code->kind, KernelCode::Kind::kPtx);
  }
}

TEST(ManifestKernelsTest, OtherKernelsAreNotFound) {
  auto kernels = ManifestKernels::Read(kExamples).value();
  Kernel kernel = kernels.Candidates(1, kMemory, 1)->front();
  ++std::get<Custom>(kernel.work).flops;
  EXPECT_THAT(MessageOf(kernels.Find(kernel).status()), HasSubstr("no shape that its manifest was asked for"));
  std::get<Custom>(kernel.work).op = "other";
  EXPECT_THAT(MessageOf(kernels.Find(kernel).status()), HasSubstr("other: no manifest describes it"));
  kernel.work = Gemm{.m = 1, .n = 1, .k = 1};
  EXPECT_EQ(kernels.Find(kernel).status().code(), absl::StatusCode::kNotFound);
}

TEST(ManifestKernelsTest, TwoOfOneNameAreRefused) {
  const std::vector<std::string> twice = {kExamples[0], kExamples[0]};
  EXPECT_THAT(MessageOf(ManifestKernels::Read(twice).status()), HasSubstr("has the name \"tiled_gemm_64x64\" too"));
  EXPECT_TRUE(ManifestKernels::Read({})->empty());
}

}  // namespace
}  // namespace gpueta
