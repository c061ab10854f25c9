// Our microbenchmark kernels against references on the CPU: that they do the work that is
// counted. Runs where there is a device; made for compute-sanitizer too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "calibration/backends/cuda/device/microbenchmarks.h"
#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/cuda/driver/device_buffer.h"
#include "calibration/backends/cuda/driver/kernel_module.h"
#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/ops/micro_kernels.h"

namespace gpueta {
namespace {

using ::testing::Each;

class MicroKernelsDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = OpenCudaDriver();
    if (!driver.ok()) GTEST_SKIP() << driver.status();
    driver_ = *std::move(driver);
    device_ = driver_->Open(0).value();
    kernels_ = KernelModule::Load(*device_, MicroKernelsPtx()).value();
    stream_ = device_->CreateStream().value();
  }

  template <class T>
  DeviceBuffer Put(const std::vector<T>& values) {
    DeviceBuffer buffer = DeviceBuffer::Allocate(*device_, values.size() * sizeof(T)).value();
    EXPECT_TRUE(device_->CopyToDevice(buffer.pointer(), std::as_bytes(std::span(values))).ok());
    return buffer;
  }
  template <class T>
  std::vector<T> Get(const DeviceBuffer& buffer) {
    EXPECT_TRUE(device_->Synchronize(stream_).ok());
    std::vector<T> values(buffer.size() / sizeof(T));
    EXPECT_TRUE(device_->CopyToHost(std::as_writable_bytes(std::span(values)), buffer.pointer()).ok());
    return values;
  }
  template <class... Arguments>
  void Launch(KernelModule& kernels, const std::string& entry, std::uint32_t blocks, std::uint32_t threads,
              Arguments... arguments) {
    const absl::Status status = kernels.Launch(entry, blocks, threads, stream_, arguments...);
    EXPECT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<CudaDriver> driver_;
  std::unique_ptr<CudaDevice> device_;
  KernelModule kernels_;
  StreamHandle stream_{};
};

constexpr std::uint32_t kBlocks = 3;
constexpr int kIterations = 2;

// Each chain c ends at c + 0.25 for every step: exact in every type.
TEST_F(MicroKernelsDeviceTest, EveryMultiplyAddIsDone) {
  constexpr double kChains = micro::kFmaChains;
  constexpr double kExpected = kChains * (kChains - 1) / 2 + kChains * 0.25 * micro::kFmaSteps * kIterations;
  constexpr std::size_t kThreads = std::size_t{kBlocks} * micro::kFmaThreads;
  const DeviceBuffer single = Put(std::vector<float>(kThreads));
  Launch(kernels_, "fma_fp32", kBlocks, micro::kFmaThreads, single.pointer(), 1.0F, 0.25F, kIterations);
  EXPECT_THAT(Get<float>(single), Each(static_cast<float>(kExpected)));
  const DeviceBuffer twice = Put(std::vector<double>(kThreads));
  Launch(kernels_, "fma_fp64", kBlocks, micro::kFmaThreads, twice.pointer(), 1.0F, 0.25F, kIterations);
  EXPECT_THAT(Get<double>(twice), Each(kExpected));
  static_assert(kExpected == 92);  // 0x55c0 in fp16
  const DeviceBuffer halves = Put(std::vector<std::uint32_t>(kThreads));
  Launch(kernels_, "fma_fp16", kBlocks, micro::kFmaThreads, halves.pointer(), 1.0F, 0.25F, kIterations);
  EXPECT_THAT(Get<std::uint32_t>(halves), Each(0x55c055c0U));
}

// Products of ones add the depth to every accumulator.
TEST_F(MicroKernelsDeviceTest, EveryMatrixProductIsDone) {
  if (device_->properties().compute_capability() < 80) GTEST_SKIP() << "compute capability below 8.0";
  KernelModule tensor = KernelModule::Load(*device_, TensorKernelsPtx()).value();
  constexpr std::size_t kThreads = std::size_t{kBlocks} * micro::kMmaThreads;
  const struct {
    const char* entry;
    int depth;
    std::uint32_t ones;
  } kCases[] = {{"mma_fp16", 16, 0x3c003c00}, {"mma_bf16", 16, 0x3f803f80}, {"mma_tf32", 8, 0x3f800000}};
  constexpr int kAccumulators = 4 * micro::kMmaTiles;  // of a thread
  for (const auto& c : kCases) {
    const DeviceBuffer out = Put(std::vector<float>(kThreads));
    Launch(tensor, c.entry, kBlocks, micro::kMmaThreads, out.pointer(), c.ones, c.ones, kIterations);
    EXPECT_THAT(Get<float>(out), Each(static_cast<float>(kAccumulators * c.depth * kIterations))) << c.entry;
  }
  const DeviceBuffer out = Put(std::vector<std::int32_t>(kThreads));
  Launch(tensor, "mma_int8", kBlocks, micro::kMmaThreads, out.pointer(), 0x01010101U, 0x01010101U, kIterations);
  EXPECT_THAT(Get<std::int32_t>(out), Each(kAccumulators * 32 * kIterations));
}

TEST_F(MicroKernelsDeviceTest, TheChaseGoesWhereTheCycleGoes) {
  const std::vector<std::uint32_t> cycle = ChaseCycle(512, 3);
  constexpr int kSteps = 1'001;
  std::uint32_t expected = 0;
  for (int i = 0; i < kSteps; ++i) expected = cycle[expected];
  const DeviceBuffer next = Put(cycle);
  const DeviceBuffer out = Put(std::vector<std::uint32_t>(1));
  Launch(kernels_, "chase", 1, 1, out.pointer(), next.pointer(), std::uint32_t{0}, kSteps);
  EXPECT_THAT(Get<std::uint32_t>(out), Each(expected));
}

// Sizes that fill no round of the blocks.
constexpr long long kPacks = 20'011;
std::vector<std::uint32_t> Words() {
  std::vector<std::uint32_t> words(4 * static_cast<std::size_t>(kPacks));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 2'654'435'761U);
  return words;
}

TEST_F(MicroKernelsDeviceTest, ReadingReadsEveryWord) {
  const std::vector<std::uint32_t> words = Words();
  const DeviceBuffer from = Put(words);
  const DeviceBuffer out = Put(std::vector<std::uint32_t>(std::size_t{kBlocks} * micro::kStreamThreads));
  Launch(kernels_, "read", kBlocks, micro::kStreamThreads, out.pointer(), from.pointer(), kPacks);
  const std::vector<std::uint32_t> sums = Get<std::uint32_t>(out);
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0U), std::accumulate(words.begin(), words.end(), 0U));
}

TEST_F(MicroKernelsDeviceTest, CopyingCopiesEveryWord) {
  const std::vector<std::uint32_t> words = Words();
  const DeviceBuffer from = Put(words);
  const DeviceBuffer to = Put(std::vector<std::uint32_t>(words.size()));
  Launch(kernels_, "copy", kBlocks, micro::kStreamThreads, to.pointer(), from.pointer(), kPacks);
  EXPECT_EQ(Get<std::uint32_t>(to), words);
}

TEST_F(MicroKernelsDeviceTest, ContendingEndsAndStaysWithinItsMemory) {
  const std::vector<std::uint32_t> words = Words();
  const DeviceBuffer from = Put(words);
  const DeviceBuffer to = Put(std::vector<std::uint32_t>(words.size()));
  for (const float pause : {0.0F, 3.0F}) {
    Launch(kernels_, "contend", kBlocks, micro::kStreamThreads, to.pointer(), from.pointer(), kPacks,
           20'000'000LL /* cycles */, pause);
    EXPECT_EQ(Get<std::uint32_t>(to), words);
  }
}

TEST_F(MicroKernelsDeviceTest, LatenciesGrowFromCacheToMemory) {
  const auto measured = RunMicrobenchmarks(*device_, RealTime());
  ASSERT_TRUE(measured.ok()) << measured.status();
  const CacheLatencies latencies = LatenciesOf(measured->chase, device_->properties().l2_bytes);
  EXPECT_GT(latencies.l1_ns, 0);
  EXPECT_GT(latencies.memory_ns, latencies.l1_ns);
  if (latencies.l2_ns > 0) {
    EXPECT_GT(latencies.l2_ns, latencies.l1_ns);
    EXPECT_GT(latencies.memory_ns, latencies.l2_ns);
  }
  EXPECT_GT(measured->fma_tflops.at(DType::kFp32), 0.1);
  for (const auto& [name, figure] : FiguresOf(*measured, device_->properties().l2_bytes)) {
    std::printf("%s %.4g\n", name.c_str(), figure);
  }
}

}  // namespace
}  // namespace gpueta
