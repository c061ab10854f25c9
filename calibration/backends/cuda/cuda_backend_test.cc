#include "calibration/backends/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/simulated/simulated_library.h"
#include "calibration/backends/measure.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

struct Bench {
  explicit Bench(SimulatedGpu gpu = {}, const CudaOptions& options = {}, bool records = false)
      : driver(std::move(gpu)) {
    CudaParts parts;
    auto device = driver.OpenSimulated();
    parts.libraries.push_back(MakeSimulatedLibrary(*device));
    parts.device = std::move(device);
    parts.card = driver.OpenCard(0).value();
    if (records) parts.activities = driver.OpenRecorder();
    parts.time = driver.Time();
    backend = MakeCudaBackend(std::move(parts), options).value();
  }
  absl::StatusOr<MeasuredKernel> Measure(const Kernel& kernel) {
    return MeasureKernel(*backend, kernel, backend->timing_policy(), driver.Time().now);
  }

  SimulatedDriver driver;
  std::unique_ptr<Backend> backend;
};

Kernel Product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.dtype = DType::kFp16, .work = Gemm{.layer = Gemm::Layer::kLinear, .m = m, .n = n, .k = k}};
}

// A product of whole tiles on the default device, by 256x128: its work and what the
// device takes for it.
const Kernel kProduct = [] {
  Kernel kernel = Product(4'096, 4'096, 1'024);
  kernel.launch.kernel = "simulated_gemm_256x128";
  return kernel;
}();
double DeviceUs(const SimulatedGpu& gpu, const Kernel& kernel = kProduct) {
  const auto& gemm = std::get<Gemm>(kernel.work);
  SimulatedWork work{.block_flops = 2.0 * 256 * 128 * static_cast<double>(gemm.k),
                     .efficiency = 0.88,
                     .dtype = kernel.dtype,
                     .bytes = static_cast<double>(CountsOf(kernel).bytes().value())};
  work.geometry.grid.x = static_cast<std::uint32_t>((gemm.m / 256) * (gemm.n / 128));
  return SimulatedDurationUs(gpu, work);
}

TEST(CudaBackendTest, GraphTimingIsTheKernelAndAGap) {
  Bench bench;
  const auto measured = bench.Measure(kProduct);
  ASSERT_TRUE(measured.ok()) << measured.status();
  const SimulatedGpu gpu;
  EXPECT_NEAR(measured->measurement.latency_us, DeviceUs(gpu) + gpu.graph_gap_us, 0.01);
  EXPECT_EQ(measured->measurement.timing, Timing::kGraph);
  EXPECT_EQ(measured->measurement.source, "simulated");
  EXPECT_FALSE(measured->timing.disturbed);
}

TEST(CudaBackendTest, EagerTimingHasTheHostsPart) {
  Bench bench({}, {.timing = Timing::kEager});
  const auto measured = bench.Measure(Product(16, 16, 16));
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->measurement.timing, Timing::kEager);
  const SimulatedGpu gpu;
  EXPECT_GT(measured->measurement.latency_us, gpu.host_issue_us + gpu.launch_latency_us + gpu.start_us);
  EXPECT_LT(measured->measurement.latency_us, gpu.host_issue_us + gpu.launch_latency_us + gpu.start_us + 3);
}

TEST(CudaBackendTest, KernelTimingIsTheDevicesRecord) {
  Bench bench({}, {.timing = Timing::kKernel}, true);
  const auto measured = bench.Measure(kProduct);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_NEAR(measured->measurement.latency_us, DeviceUs({}), 0.01);
  EXPECT_EQ(measured->measurement.timing, Timing::kKernel);
}

TEST(CudaBackendTest, KernelTimingNeedsRecords) {
  SimulatedDriver driver({});
  CudaParts parts;
  parts.device = driver.OpenSimulated();
  const absl::Status status = MakeCudaBackend(std::move(parts), {.timing = Timing::kKernel}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("CUPTI"));
}

TEST(CudaBackendTest, FlushingTheCacheIsNotInTheTime) {
  Bench bench({}, {.l2 = L2State::kFlushed});
  const auto measured = bench.Measure(kProduct);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_NEAR(measured->measurement.latency_us, DeviceUs({}) + SimulatedGpu().graph_gap_us, 0.01);
}

TEST(CudaBackendTest, MeasurementsNameTheirLaunch) {
  Bench bench;
  const auto measured = bench.Measure(Product(512, 512, 64));
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_THAT(measured->measurement.kernel.launch.kernel, HasSubstr("simulated_gemm_"));
  EXPECT_GT(measured->measurement.kernel.launch.blocks(), 0);
  EXPECT_EQ(measured->measurement.kernel.launch.block_x, 256);
}

TEST(CudaBackendTest, EveryAlgorithmCanBeMeasuredAndTheHeuristicsChoiceComesFirst) {
  Bench bench;
  const Kernel kernel = Product(4'096, 4'096, 512);
  const std::vector<Kernel> algorithms = bench.backend->Algorithms(kernel);
  ASSERT_EQ(algorithms.size(), std::size(kSimulatedTiles));
  EXPECT_EQ(algorithms.front().launch.kernel, bench.Measure(kernel)->measurement.kernel.launch.kernel);
  for (const Kernel& by : algorithms) {
    EXPECT_EQ(bench.Measure(by)->measurement.kernel.launch.kernel, by.launch.kernel);
  }
  Kernel unknown = kernel;
  unknown.launch.kernel = "ampere_sgemm_128x64_tn";  // another library's
  EXPECT_EQ(bench.Measure(unknown)->measurement.kernel.launch.kernel, algorithms.front().launch.kernel);
  unknown.launch.kernel = "simulated_gemm_8x8";
  EXPECT_EQ(bench.backend->Prepare(unknown).status().code(), absl::StatusCode::kNotFound);
}

TEST(CudaBackendTest, HostIssueTimeIsMeasured) {
  Bench bench;
  EXPECT_NEAR(bench.backend->MeasureHostIssueUs().value(), SimulatedGpu().host_issue_us, 0.01);
}

TEST(CudaBackendTest, AThrottledStretchIsWaitedOut) {
  SimulatedGpu gpu;
  gpu.stretches = {{.begin_us = 100'000,
                    .end_us = 400'000,
                    .clock_share = 0.6,
                    .limits = static_cast<std::uint32_t>(ClockLimit::kHardThermal)}};
  Bench bench(gpu);
  double now_us = 0;
  while (now_us < 600'000) {
    const auto measured = bench.Measure(kProduct);
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_NEAR(measured->measurement.latency_us, DeviceUs({}) + gpu.graph_gap_us, 0.01);
    EXPECT_FALSE(measured->timing.slowed);
    now_us = bench.driver.Time().now();
  }
}

// Runs that are held back teach nothing and keep the card hot.
TEST(CudaBackendTest, AModelWaitsAThrottledStretchOut) {
  SimulatedGpu gpu;
  constexpr double kEndsUs = 900'000;
  gpu.stretches = {{.begin_us = 5'000,
                    .end_us = kEndsUs,
                    .clock_share = 0.6,
                    .limits = static_cast<std::uint32_t>(ClockLimit::kHardThermal)}};
  Bench bench(gpu);
  const std::vector<Kernel> model(20, kProduct);
  const auto measured = MeasureGraph(*bench.backend, model, {}, bench.driver.Time().now);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_GT(bench.driver.Time().now(), kEndsUs);
  EXPECT_FALSE(measured->total.slowed);
  EXPECT_NEAR(measured->kernels[7].latency_us, DeviceUs({}), 5);
  // Without a pause it would run all the time.
  const double busy_us = 1.7 * DeviceUs({}) * static_cast<double>(bench.driver.state().launches);
  EXPECT_LT(busy_us, 0.5 * kEndsUs);
}

TEST(CudaBackendTest, AChosenStateOfTheCacheIsTold) {
  EXPECT_FALSE(Bench().backend->labels().contains("l2"));
  EXPECT_THAT(Bench({}, {.l2 = L2State::kFlushed}).backend->labels(), Contains(Pair("l2", "flushed")));
}

TEST(CudaBackendTest, ACardThatStaysHeldBackIsMeasuredAsItIs) {
  SimulatedGpu gpu;
  gpu.stretches = {
      {.begin_us = 0, .end_us = 1e12, .clock_share = 0.7, .limits = static_cast<std::uint32_t>(ClockLimit::kPowerCap)}};
  Bench bench(gpu);
  const auto measured = bench.Measure(kProduct);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_TRUE(measured->timing.slowed);
  EXPECT_GT(measured->measurement.latency_us, 1.2 * DeviceUs({}));
}

TEST(CudaBackendTest, AHangingKernelIsAnErrorThatNamesIt) {
  Bench bench({.hangs = "256x128"});
  const absl::Status status = bench.Measure(kProduct).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(status), HasSubstr("m=4096"));
}

TEST(CudaBackendTest, AModelIsTimedKernelByKernel) {
  for (Timing timing : {Timing::kGraph, Timing::kEager}) {
    Bench bench({}, {.timing = timing});
    const std::vector<Kernel> model = {kProduct, Product(64, 64, 64), kProduct};
    const auto measured = MeasureGraph(*bench.backend, model, {}, bench.driver.Time().now);
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_EQ(measured->timing, timing);
    EXPECT_NEAR(measured->kernels[2].latency_us, DeviceUs({}), 5);
    EXPECT_GT(measured->total.latency_us, 2 * DeviceUs({}));
  }
}

TEST(CudaBackendTest, WhatNoLibraryHasIsUnimplemented) {
  Bench bench;
  const Kernel attention{
      .work = Attention{.batch = 1, .query_len = 8, .kv_len = 8, .heads = 1, .kv_heads = 1, .head_dim = 64}};
  EXPECT_EQ(bench.backend->Supports(attention).code(), absl::StatusCode::kUnimplemented);
}

TEST(CudaBackendTest, OthersUseACardOnlyWhileItIsBusyWithoutUs) {
  const std::vector<CardProcess> two = {{.pid = 1}, {.pid = 2}};
  EXPECT_FALSE(Bench({.others_busy = 0.5}).backend->UsedByOthers().value());  // that must be ourselves
  EXPECT_FALSE(Bench({.others = two}).backend->UsedByOthers().value());
  Bench bench({.others = two, .others_busy = 0.5});
  EXPECT_TRUE(bench.Measure(kProduct).ok());
  EXPECT_TRUE(bench.backend->UsedByOthers().value());
}

TEST(CudaBackendTest, DescribesAnUnknownCardByWhatItReaches) {
  Bench bench;
  const DeviceSpec spec = bench.backend->Describe().value();
  EXPECT_EQ(spec.slug, "simulated-gpu");
  EXPECT_EQ(spec.sm_count, 72);
  // 88 % of the peak by the best tile, less the start and the waves.
  EXPECT_NEAR(spec.fp16_tensor_tflops, 0.88 * 110, 0.05 * 110);
  EXPECT_NEAR(spec.mem_bandwidth_gb_s, 850, 0.02 * 850);
  EXPECT_THAT(bench.backend->labels(), Contains(Pair("simulated", "1")));
}

// The libraries of this machine, opened on a device that only our own kernels can be loaded
// on: what is missing is said, a line each with the reason, and the rest works.
TEST(CudaBackendTest, SaysWhichLibrariesAreMissingAndWhatThatDisables) {
  if (OpenCudaDriver().ok()) GTEST_SKIP() << "there is a GPU, and libraries may work on it";
  if (VectorKernelsPtx().empty()) GTEST_SKIP() << "built without the CUDA toolkit";
  SimulatedDriver driver({});
  const auto backend = OpenCudaBackendOn(driver.OpenSimulated(), nullptr);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const std::vector<std::string> notes = (*backend)->notes();
  for (const char* disabled :
       {"no matrix products and no mixtures of experts (cuBLASLt): ", "no convolutions and no attention (cuDNN): "}) {
    const auto note = std::ranges::find_if(notes, [&](const std::string& n) { return n.starts_with(disabled); });
    ASSERT_NE(note, notes.end()) << disabled;
    EXPECT_GT(note->size(), std::string(disabled).size()) << "without a reason";
    EXPECT_THAT(*note, Not(HasSubstr("\n")));
  }
  EXPECT_EQ((*backend)->Supports(kProduct).code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE((*backend)->Supports({.work = Vector{.op = "relu", .rows = 2, .cols = 2}}).ok());
}

}  // namespace
}  // namespace gpueta
