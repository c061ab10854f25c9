#include "calibration/backends/cuda/device/microbenchmarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/ops/micro_kernels.h"
#include "calibration/backends/cuda/simulated/simulated_driver.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;

TEST(ChaseTest, TheCycleVisitsEveryLineOnce) {
  constexpr std::size_t kLines = 1'000;
  const std::vector<std::uint32_t> next = ChaseCycle(kLines, 7);
  std::vector<bool> visited(kLines);
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < kLines; ++i) {
    ASSERT_EQ(at % micro::kLineWords, 0U);
    ASSERT_LT(at / micro::kLineWords, kLines);
    EXPECT_FALSE(visited[at / micro::kLineWords]);
    visited[at / micro::kLineWords] = true;
    at = next[at];
  }
  EXPECT_EQ(at, 0U);
  EXPECT_NE(ChaseCycle(kLines, 8), next);
}

TEST(ChaseTest, FootprintsGoFromL1PastTheL2) {
  constexpr std::size_t kMib = std::size_t{1} << 20;
  const std::vector<std::size_t> footprints = ChaseFootprints(50 * kMib);
  EXPECT_EQ(footprints.front(), kMib / 64);
  EXPECT_EQ(footprints.back(), 256 * kMib);
  EXPECT_FALSE(ChaseFootprints(0).empty());
}

TEST(ChaseTest, LevelsAreToldApartByTheFootprint) {
  constexpr std::size_t kKib = 1 << 10;
  const std::vector<ChaseLatency> chase = {{16 * kKib, 20},      {64 * kKib, 21},      {256 * kKib, 90},
                                           {1'024 * kKib, 130},  {4'096 * kKib, 140},  {16'384 * kKib, 200},
                                           {65'536 * kKib, 400}, {262'144 * kKib, 500}};
  const CacheLatencies latencies = LatenciesOf(chase, std::size_t{50} << 20);
  EXPECT_EQ(latencies.l1_ns, 20);
  EXPECT_EQ(latencies.l2_ns, 140);
  EXPECT_EQ(latencies.memory_ns, 500);
  // A small L2 has no footprint between it and L1.
  EXPECT_EQ(LatenciesOf(chase, std::size_t{2} << 20).l2_ns, 0);
}

TEST(MicrobenchmarksTest, RecoverWhatTheDeviceCanDo) {
  if (MicroKernelsPtx().empty()) GTEST_SKIP() << "built without the CUDA toolkit";
  SimulatedDriver driver({});
  const auto device = driver.OpenSimulated();
  const auto measured = RunMicrobenchmarks(*device, driver.Time());
  ASSERT_TRUE(measured.ok()) << measured.status();
  const SimulatedGpu gpu;
  EXPECT_NEAR(measured->fma_tflops.at(DType::kFp32) / gpu.tflops.at(DType::kFp32), 1, 0.03);
  EXPECT_NEAR(measured->tensor_tflops.at(DType::kFp16) / gpu.tflops.at(DType::kFp16), 1, 0.03);
  EXPECT_NEAR(measured->tensor_tflops.at(DType::kTf32) / gpu.tflops.at(DType::kTf32), 1, 0.03);
  EXPECT_NEAR(measured->read_gb_s / gpu.bandwidth_gb_s, 1, 0.03);
  EXPECT_NEAR(measured->copy_gb_s / gpu.bandwidth_gb_s, 1, 0.03);
  EXPECT_EQ(measured->chase.size(), ChaseFootprints(gpu.properties.l2_bytes).size());
  const auto figures = FiguresOf(*measured, gpu.properties.l2_bytes);
  for (const char* name : {"fma_fp32_tflops", "mma_bf16_tflops", "read_gb_s", "l1_latency_ns", "memory_latency_ns"}) {
    EXPECT_THAT(figures, Contains(Key(name)));
  }
  EXPECT_EQ(device->FreeMemory().value(), gpu.properties.memory_bytes);  // nothing is left allocated
}

TEST(MicrobenchmarksTest, OldTensorCoresAreLeftOut) {
  if (MicroKernelsPtx().empty()) GTEST_SKIP() << "built without the CUDA toolkit";
  SimulatedGpu gpu;
  gpu.properties.compute_major = 7;
  gpu.properties.compute_minor = 5;
  SimulatedDriver driver(gpu);
  const auto device = driver.OpenSimulated();
  const auto measured = RunMicrobenchmarks(*device, driver.Time());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_THAT(measured->tensor_tflops, IsEmpty());
  EXPECT_THAT(FiguresOf(*measured, 0), Not(Contains(Key(HasSubstr("mma")))));
}

TEST(MicrobenchmarksTest, AHangingKernelIsNamed) {
  if (MicroKernelsPtx().empty()) GTEST_SKIP() << "built without the CUDA toolkit";
  SimulatedDriver driver({.hangs = "fma_fp64"});
  const auto device = driver.OpenSimulated();
  const absl::Status status = RunMicrobenchmarks(*device, driver.Time()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(status), HasSubstr("fma_fp64"));
}

}  // namespace
}  // namespace gpueta
