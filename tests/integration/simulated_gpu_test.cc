// The whole worker on a simulated GPU: plan, timing, fit, publishing to a server, and what
// the server then says of shapes that were never measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/simulated/simulated_communicators.h"
#include "calibration/backends/cuda/simulated/simulated_library.h"
#include "calibration/backends/measure.h"
#include "calibration/worker/calibrate.h"
#include "calibration/worker/candidates.h"
#include "core/feedback/error_summary.h"
#include "core/sampling/sampling.h"
#include "core/wire/kernel_codec.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "server/testing/test_client.h"
#include "tests/integration/server_process.h"

namespace gpueta {
namespace {

using testing_util::ServerProcess;
using testing_util::TestClient;

constexpr std::size_t kBudget = 300;
constexpr double kNoise = 0.02;

// Held back for 0.8 s in every 3 s, every other time without saying so; disturbed now
// and then.
SimulatedGpu NoisyGpu() {
  SimulatedGpu gpu;
  gpu.placement_noise = kNoise;
  gpu.noise = kNoise;
  gpu.spike_probability = 1e-4;
  gpu.spike_us = 500;
  for (int i = 0; i < 2000; ++i) {
    const double begin_us = 1e6 + 3e6 * i;
    const auto limits = i % 2 == 0 ? static_cast<std::uint32_t>(ClockLimit::kPowerCap) : 0U;
    gpu.stretches.push_back({.begin_us = begin_us, .end_us = begin_us + 0.8e6, .clock_share = 0.7, .limits = limits});
  }
  return gpu;
}

struct Bench {
  explicit Bench(SimulatedGpu gpu) : driver(std::move(gpu)) {
    CudaParts parts;
    auto device = driver.OpenSimulated();
    parts.libraries.push_back(MakeSimulatedLibrary(*device));
    parts.device = std::move(device);
    parts.card = driver.OpenCard(0).value();
    parts.time = driver.Time();
    backend = MakeCudaBackend(std::move(parts), {}).value();
  }
  // Without noise and throttling, between others of a graph; by the algorithm named.
  double TrueUs(const Kernel& kernel) {
    SimulatedGpu quiet = driver.state().gpu;
    quiet.placement_noise = quiet.noise = quiet.spike_probability = 0;
    quiet.stretches.clear();
    Bench bench(quiet);
    return MeasureKernel(*bench.backend, kernel, {.warm_up_us = 0, .max_samples = 1}, bench.driver.Time().now)
        .value()
        .measurement.latency_us;
  }

  SimulatedDriver driver;
  std::unique_ptr<Backend> backend;
};

std::vector<Kernel> Products(std::uint64_t seed, std::size_t count) {
  std::vector<Kernel> kernels;
  const std::vector<Kernel> generated = GenerateShapes(Op::kGemm, DType::kFp16, count, seed).value();
  for (const Kernel& kernel : generated) {
    if (CountsOf(kernel).flops.value() < 5e11) kernels.push_back(kernel);
  }
  return kernels;
}

class SimulatedCalibration : public testing::Test {
 protected:
  // One campaign for all tests: it takes seconds.
  static void SetUpTestSuite() {
    bench_ = new Bench(NoisyGpu());
    spec_ = new DeviceSpec(bench_->backend->Describe().value());
    calibration_ =
        new Calibration(Calibrate(*bench_->backend, *spec_, Products(1, 3000),
                                  {.budget = kBudget, .time_budget_us = 1e12, .seed = 1}, bench_->driver.Time().now)
                            .value());
  }
  static void TearDownTestSuite() {
    delete calibration_;
    delete spec_;
    delete bench_;
  }

  static Bench* bench_;
  static DeviceSpec* spec_;
  static Calibration* calibration_;
};
Bench* SimulatedCalibration::bench_ = nullptr;
DeviceSpec* SimulatedCalibration::spec_ = nullptr;
Calibration* SimulatedCalibration::calibration_ = nullptr;

TEST_F(SimulatedCalibration, ThrottledStretchesAreDiscarded) {
  EXPECT_FALSE(calibration_->slowed);
  EXPECT_GE(calibration_->measurements.size(), kBudget * 95 / 100);
  double worst = 0;
  double sum = 0;
  for (const Measurement& row : calibration_->measurements) {
    const double error = std::log(row.latency_us / bench_->TrueUs(row.kernel));
    worst = std::max(worst, std::abs(error));
    sum += error;
  }
  // Held back, kernels would take up to 43 % longer.
  EXPECT_LT(worst, 5 * kNoise);
  EXPECT_NEAR(sum / static_cast<double>(calibration_->measurements.size()), 0, kNoise / 4);
}

// The share of the peak that the tiles of each configuration reach which was measured
// often; over these configurations, the bandwidth of the memory and what a launch of one
// wave costs whatever it does.
TEST_F(SimulatedCalibration, HiddenParametersAreRecovered) {
  const SimulatedGpu& hidden = bench_->driver.state().gpu;
  EXPECT_NEAR(calibration_->profile.host_issue_us, hidden.host_issue_us, 0.03 * hidden.host_issue_us);
  ASSERT_EQ(calibration_->profile.tables.size(), 1U);
  const double of_one_wave_us = hidden.start_us + hidden.graph_gap_us + hidden.wave_us;
  double launch_us = 0;
  double bandwidth_gb_s = 0;
  double rows = 0;
  for (const KernelConfig& config : calibration_->profile.tables.front().kernel_configs) {
    constexpr std::int64_t kOften = 50;
    if (config.rows < kOften) continue;
    const auto tile = std::ranges::find_if(
        kSimulatedTiles, [&](const SimulatedTile& t) { return t.m == config.tile_m && t.n == config.tile_n; });
    ASSERT_NE(tile, std::end(kSimulatedTiles)) << config.kernel;
    EXPECT_EQ(config.resident_blocks, tile->resident_blocks);
    const auto& [fixed, wave, full_waves, balanced, bytes] = config.coefficients;
    const double tflops = PeakTflops(*spec_, DType::kFp16) / (full_waves + balanced);
    const double true_tflops = tile->efficiency * hidden.tflops.at(DType::kFp16);
    EXPECT_NEAR(tflops, true_tflops, 0.03 * true_tflops) << config.kernel;
    bandwidth_gb_s += static_cast<double>(config.rows) * spec_->mem_bandwidth_gb_s / bytes;
    launch_us += static_cast<double>(config.rows) * (fixed + wave);
    rows += static_cast<double>(config.rows);
  }
  ASSERT_GT(rows, kBudget / 2);
  EXPECT_NEAR(bandwidth_gb_s / rows, hidden.bandwidth_gb_s, 0.03 * hidden.bandwidth_gb_s);
  EXPECT_NEAR(launch_us / rows, of_one_wave_us, 0.03 * of_one_wave_us);
}

TEST_F(SimulatedCalibration, AServerPredictsUnseenShapesFromThePublishedProfile) {
  const auto server =
      ServerProcess::Start(GPUETA_SERVER_BINARY, {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--store",
                                                  "sqlite::memory:", "--profiles", "off", "--drain-seconds", "0"});
  ASSERT_TRUE(server.ok()) << server.status();
  TestClient client((*server)->address());
  const std::string slug = calibration_->profile.device;
  const auto published = client.Publish("devices/" + slug, SerializeProfile(calibration_->profile), true);
  ASSERT_TRUE(published.ok()) << published.status();
  const auto ask = [&](const Kernel& kernel) {
    v1::PredictRequest request;
    request.add_devices()->set_slug(slug);
    *request.mutable_kernel() = wire::Encode(kernel);
    const auto response = client.Predict(request);
    EXPECT_TRUE(response.ok()) << response.status();
    Quantiles latency_us;
    if (!response.ok()) return latency_us;
    const auto& us = response->devices(0).kernel().latency_us();
    latency_us.p50 = us.p50();
    latency_us.p90 = us.p90();
    latency_us.p99 = us.p99();
    return latency_us;
  };
  std::vector<PredictedAndObserved> blind;  // by shape alone
  std::vector<PredictedAndObserved> asked;  // with the launch that the library gives the shape
  for (Kernel kernel : Products(2, 300)) {
    const double true_us = bench_->TrueUs(kernel);
    blind.push_back({ask(kernel), true_us});
    kernel.launch = bench_->backend->Prepare(kernel).value()->launch();
    asked.push_back({ask(kernel), true_us});
  }
  EXPECT_LT(Summarise(blind).mape, 0.04);
  EXPECT_LT(Summarise(asked).mape, 0.04);
}

// A worker that measures the collectives of a node of four GPUs, and what the server says
// then of sizes between those that were measured.
TEST(SimulatedNode, AServerPredictsCollectivesFromThePublishedProfile) {
  SimulatedLinks links;
  SimulatedDriver driver({.noise = kNoise});
  CudaParts parts;
  auto device = driver.OpenSimulated();
  parts.libraries.push_back(MakeSimulatedLibrary(*device));
  parts.device = std::move(device);
  parts.card = driver.OpenCard(0).value();
  parts.time = driver.Time();
  parts.collectives = MakeSimulatedCollectives(links);
  for (int peer = 1; peer < 4; ++peer) parts.peers.push_back({.device = driver.OpenSimulated()});
  ASSERT_TRUE(parts.device->Activate().ok());
  const auto backend = MakeCudaBackend(std::move(parts), {}).value();
  const auto calibration = Calibrate(*backend, backend->Describe().value(), CollectiveCandidates(*backend, {}),
                                     {.budget = 200, .seed = 1}, driver.Time().now);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const auto server =
      ServerProcess::Start(GPUETA_SERVER_BINARY, {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--store",
                                                  "sqlite::memory:", "--profiles", "off", "--drain-seconds", "0"});
  ASSERT_TRUE(server.ok()) << server.status();
  TestClient client((*server)->address());
  const std::string slug = calibration->profile.device;
  ASSERT_TRUE(client.Publish("devices/" + slug, SerializeProfile(calibration->profile), true).ok());
  std::vector<PredictedAndObserved> unseen;
  for (const char* op : {"all_reduce", "alltoall"}) {
    for (const std::int64_t ranks : {2, 4}) {
      for (std::int64_t bytes = 1'300; bytes < (256 << 20); bytes *= 5) {
        const Kernel kernel{.dtype = DType::kFp32,
                            .work = Collective{.op = op, .backend = "nccl-tests", .bytes = bytes, .ranks = ranks}};
        v1::PredictRequest request;
        request.add_devices()->set_slug(slug);
        *request.mutable_kernel() = wire::Encode(kernel);
        const auto response = client.Predict(request);
        ASSERT_TRUE(response.ok()) << response.status();
        const auto& us = response->devices(0).kernel().latency_us();
        const auto measured = MeasureKernel(*backend, kernel, backend->timing_policy(), driver.Time().now);
        ASSERT_TRUE(measured.ok()) << measured.status();
        unseen.push_back({{us.p50(), us.p90(), us.p99()}, measured->measurement.latency_us});
      }
    }
  }
  EXPECT_LT(Summarise(unseen).mape, 0.05);
}

}  // namespace
}  // namespace gpueta
