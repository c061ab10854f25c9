// On a simulated GPU: units, clocks and contention have an effect, the L2 cache has
// none.
#include "calibration/control/cuda/cuda_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "calibration/backends/cuda/cuda_backend.h"
#include "calibration/backends/cuda/simulated/simulated_library.h"
#include "calibration/control/emulate.h"
#include "calibration/control/open_control.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;
using ::testing::TempDir;

class SimulatedContention : public Contention {
 public:
  SimulatedContention(SimulatedState& state, double duty) : state_(state) { state_.contention = duty; }
  ~SimulatedContention() override { state_.contention = 0; }
  std::string Disturbance() const override { return "a simulated disturbance"; }

 private:
  SimulatedState& state_;
};

class Host {
 public:
  explicit Host(SimulatedGpu gpu = {}) : driver(std::move(gpu)) {}

  absl::StatusOr<std::unique_ptr<DeviceControl>> Open(bool allow_card_settings) {
    CudaHost host{.device = driver.OpenSimulated(), .card = driver.OpenCard(0).value(), .clock = driver.Time().now};
    host.open_backend = [this](std::unique_ptr<CudaDevice> part) {
      CudaParts parts;
      parts.libraries.push_back(MakeSimulatedLibrary(dynamic_cast<SimulatedDevice&>(*part)));
      parts.device = std::move(part);
      parts.card = driver.OpenCard(0).value();
      parts.time = driver.Time();
      return MakeCudaBackend(std::move(parts), {});
    };
    host.contend = [this](std::unique_ptr<CudaDevice> rest,
                          double duty) -> absl::StatusOr<std::unique_ptr<Contention>> {
      contending_sms = rest->properties().sm_count;
      return std::make_unique<SimulatedContention>(driver.state(), duty);
    };
    return MakeCudaControl(std::move(host),
                           {.allow_card_settings = allow_card_settings,
                            .guard = {.state_directory = state_directory, .program = GPUETA_CARD_GUARD_BINARY}});
  }
  ~Host() { std::filesystem::remove_all(state_directory); }

  SimulatedDriver driver;
  int contending_sms = 0;
  std::string state_directory = TempDir() + "cuda_control_test." + std::to_string(getpid());
};

Configuration With(const DeviceControl& control, Knob knob, double value) {
  Configuration configuration = Unrestricted(control.space());
  At(configuration, knob) = value;
  return configuration;
}

TEST(CudaControlTest, FewerSmsComputeSlower) {
  Host host;
  const auto control = host.Open(false).value();
  EXPECT_EQ(control->space().range(Knob::kUnits)->most, 72);
  ASSERT_TRUE(control->Apply(Unrestricted(control->space())).ok());
  const DeviceSpec whole = control->MeasureSpec().value();
  ASSERT_TRUE(control->Apply(With(*control, Knob::kUnits, 36)).ok());
  const DeviceSpec half = control->MeasureSpec().value();
  EXPECT_NEAR(half.fp32_tflops / whole.fp32_tflops, 0.5, 0.03);
  EXPECT_NEAR(half.mem_bandwidth_gb_s / whole.mem_bandwidth_gb_s, 1, 0.05);
  EXPECT_EQ(half.sm_count, 36);
}

TEST(CudaControlTest, OtherSmsTakeBandwidthAwayUntilItIsRestored) {
  Host host;
  const auto control = host.Open(false).value();
  Configuration half = With(*control, Knob::kUnits, 36);
  ASSERT_TRUE(control->Apply(half).ok());
  const DeviceSpec alone = control->MeasureSpec().value();
  EXPECT_EQ(control->Disturbance(), "");
  At(half, Knob::kContention) = 0.5;
  ASSERT_TRUE(control->Apply(half).ok());
  EXPECT_EQ(host.contending_sms, 36);
  const DeviceSpec contended = control->MeasureSpec().value();
  EXPECT_NEAR(contended.mem_bandwidth_gb_s / alone.mem_bandwidth_gb_s, 1 - 0.5 * SimulatedGpu().contended_share, 0.02);
  EXPECT_NEAR(contended.fp32_tflops / alone.fp32_tflops, 1, 0.02);
  EXPECT_EQ(control->Disturbance(), "a simulated disturbance");
  ASSERT_TRUE(control->Restore().ok());
  EXPECT_EQ(host.driver.state().contention, 0);
}

TEST(CudaControlTest, OpeningAGpuThatIsNotThereSaysWhichAndWhy) {
  if (OpenCudaDriver().ok()) GTEST_SKIP() << "there is one";
  const absl::Status status = OpenDeviceControl("cuda:0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), ::testing::StartsWith("cuda:0: "));
  EXPECT_EQ(OpenDeviceControl("cuda:x").status().code(), absl::StatusCode::kInvalidArgument);
}

// On Hopper 132 SMs are split by eights.
TEST(CudaControlTest, AllSmsAreUsedThoughGroupsDoNotDivideThem) {
  SimulatedGpu gpu;
  gpu.properties.sm_count = 70;
  Host host(gpu);
  const auto control = host.Open(false).value();
  ASSERT_TRUE(control->Apply(Unrestricted(control->space())).ok());
  EXPECT_EQ(control->MeasureSpec()->sm_count, 70);
  ASSERT_TRUE(control->Apply(With(*control, Knob::kUnits, 68)).ok());
  EXPECT_EQ(control->MeasureSpec()->sm_count, 68);
}

TEST(CudaControlTest, ADeviceOfOneGroupHasNothingToContendFrom) {
  SimulatedGpu gpu;
  gpu.properties.sm_count = 4;
  Host host(gpu);
  EXPECT_FALSE(host.Open(false).value()->space().range(Knob::kContention).has_value());
}

TEST(CudaControlTest, ClocksAreSetOnlyIfAllowedAndRestored) {
  Host host;
  {
    const auto control = host.Open(false).value();
    EXPECT_FALSE(control->space().range(Knob::kCoreClock).has_value());
  }
  const auto control = host.Open(true).value();
  ASSERT_TRUE(control->space().range(Knob::kCoreClock).has_value());
  EXPECT_EQ(control->space().range(Knob::kCoreClock)->most, 1500);
  ASSERT_TRUE(control->Apply(With(*control, Knob::kCoreClock, 900)).ok());
  EXPECT_EQ(host.driver.state().locked_sm_mhz, 900);
  ASSERT_TRUE(control->Restore().ok());
  EXPECT_EQ(host.driver.state().locked_sm_mhz, 0);
}

TEST(CudaControlTest, ALowerMemoryClockTakesBandwidthAwayUntilItIsRestored) {
  Host host;
  EXPECT_FALSE(host.Open(false).value()->space().range(Knob::kMemoryClock).has_value());
  const auto control = host.Open(true).value();
  // At 400 MHz the SMs could not have their clocks.
  ASSERT_TRUE(control->space().range(Knob::kMemoryClock).has_value());
  EXPECT_THAT(ValuesOf(*control->space().range(Knob::kMemoryClock)), ::testing::ElementsAre(600, 900, 1200));
  EXPECT_EQ(host.driver.state().locked_memory_mhz, 0);  // it was only tried
  ASSERT_TRUE(control->Apply(Unrestricted(control->space())).ok());
  const DeviceSpec whole = control->MeasureSpec().value();
  Configuration slower = With(*control, Knob::kMemoryClock, 600);
  At(slower, Knob::kCoreClock) = 1200;
  ASSERT_TRUE(control->Apply(slower).ok());
  EXPECT_EQ(host.driver.state().locked_memory_mhz, 600);
  EXPECT_EQ(host.driver.state().locked_sm_mhz, 1200);
  const DeviceSpec half = control->MeasureSpec().value();
  EXPECT_NEAR(half.mem_bandwidth_gb_s / whole.mem_bandwidth_gb_s, 0.5, 0.02);
  EXPECT_NEAR(half.fp32_tflops / whole.fp32_tflops, 0.8, 0.03);
  ASSERT_TRUE(control->Restore().ok());
  EXPECT_EQ(host.driver.state().locked_memory_mhz, 0);
  EXPECT_EQ(host.driver.state().locked_sm_mhz, 0);
}

TEST(CudaControlTest, AMemoryClockThatCannotBeLockedIsNoKnob) {
  SimulatedGpu gpu;
  gpu.memory_lock_allowed = false;
  Host host(gpu);
  const auto control = host.Open(true).value();
  EXPECT_FALSE(control->space().range(Knob::kMemoryClock).has_value());
  ASSERT_TRUE(control->Apply(With(*control, Knob::kCoreClock, 900)).ok());
  EXPECT_EQ(host.driver.state().locked_sm_mhz, 900);
  EXPECT_EQ(control->Restore(), absl::OkStatus());
  EXPECT_EQ(host.driver.state().locked_sm_mhz, 0);
}

// Nor can they be reset then: nothing may be left to restore.
TEST(CudaControlTest, AfterClocksThatCannotBeLockedTheNextRunOpens) {
  SimulatedGpu gpu;
  gpu.memory_lock_allowed = false;
  gpu.sm_lock_allowed = false;
  Host host(gpu);
  for (int run = 0; run < 2; ++run) {
    const auto control = host.Open(true);
    ASSERT_TRUE(control.ok()) << control.status();
    const auto applied = (*control)->Apply(With(**control, Knob::kCoreClock, 900));
    EXPECT_EQ(applied.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ((*control)->Restore(), absl::OkStatus());
  }
  EXPECT_EQ(ReplayStaleJournals(host.state_directory).value(), 0);
}

TEST(CudaControlTest, ClocksThatAnAdministratorSetAreLeftAlone) {
  SimulatedGpu gpu;
  gpu.stretches = {{.end_us = 1e18, .limits = static_cast<std::uint32_t>(ClockLimit::kSetting)}};
  Host host(gpu);
  const auto control = host.Open(true).value();
  const auto applied = control->Apply(With(*control, Knob::kCoreClock, 900));
  EXPECT_EQ(applied.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(applied.status()), HasSubstr("set already"));
  EXPECT_EQ(host.driver.state().locked_sm_mhz, 0);
  EXPECT_EQ(host.driver.state().locked_memory_mhz, 0);
}

// A few products and sums on `target`, and emulated on the whole simulated GPU.
struct Emulated {
  double true_us = 0;
  absl::StatusOr<Emulation> emulation;
};
Emulated EmulateOnTheWhole(const SimulatedGpu& target_gpu, std::int64_t vector_rows, bool allow_card_settings = false) {
  std::vector<Kernel> model;
  for (const std::int64_t n : {1024, 2048, 4096}) {
    model.push_back({.dtype = DType::kFp32, .work = Gemm{.m = 1024, .n = n, .k = 1024}});
    model.push_back(
        {.dtype = DType::kFp32, .work = Vector{.op = "add", .rows = vector_rows, .cols = n, .operands = 2}});
  }
  Host truth(target_gpu);
  const auto alone = truth.Open(false).value();
  Backend& backend = **alone->Apply(Unrestricted(alone->space()));
  const double true_us = MeasureGraph(backend, model, {}, truth.driver.Time().now)->total.latency_us;
  const DeviceRates target{.spec = alone->MeasureSpec().value()};
  Host host;
  const auto control = host.Open(allow_card_settings).value();
  return {true_us, Emulate(*control, target, model, {}, host.driver.Time().now)};
}

// A GPU with a quarter of the SMs, everything else alike.
TEST(CudaControlTest, ASmallerGpuIsPredictedFromALargerOne) {
  SimulatedGpu small;
  small.properties.sm_count /= 4;
  for (auto& [dtype, tflops] : small.tflops) tflops /= 4;
  const auto [true_us, emulation] = EmulateOnTheWhole(small, 4096);
  ASSERT_TRUE(emulation.ok()) << emulation.status();
  EXPECT_THAT(emulation->configuration_text, ::testing::ContainsRegex("units (16|20) of 72"));
  EXPECT_NEAR(emulation->estimate.latency_us.p50 / true_us, 1, 0.05);
  EXPECT_LE(true_us, emulation->estimate.latency_us.p99);
}

// A GPU with half the SMs and less than half the bandwidth: SMs alone do not make it.
TEST(CudaControlTest, AGpuOfLessBandwidthIsPredictedByContention) {
  SimulatedGpu small;
  small.properties.sm_count /= 2;
  for (auto& [dtype, tflops] : small.tflops) tflops /= 2;
  small.bandwidth_gb_s *= 0.6;
  const auto [true_us, emulation] = EmulateOnTheWhole(small, 8192);
  ASSERT_TRUE(emulation.ok()) << emulation.status();
  EXPECT_GT(At(emulation->configuration, Knob::kContention), 0.3);
  EXPECT_NEAR(emulation->estimate.latency_us.p50 / true_us, 1, 0.05);
  EXPECT_LE(true_us, emulation->estimate.latency_us.p99);
}

// A GPU of all the SMs and three quarters of the bandwidth: no SMs are left to contend
// from, and a lower memory clock makes it.
TEST(CudaControlTest, AGpuOfSlowerMemoryIsPredictedByTheMemoryClock) {
  SimulatedGpu slower;
  slower.bandwidth_gb_s *= 0.75;
  const auto [true_us, emulation] = EmulateOnTheWhole(slower, 8192, true);
  ASSERT_TRUE(emulation.ok()) << emulation.status();
  EXPECT_EQ(At(emulation->configuration, Knob::kMemoryClock), 900);
  EXPECT_EQ(At(emulation->configuration, Knob::kContention), 0);
  EXPECT_NEAR(emulation->estimate.latency_us.p50 / true_us, 1, 0.05);
}

}  // namespace
}  // namespace gpueta
