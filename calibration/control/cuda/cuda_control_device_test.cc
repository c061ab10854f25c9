// A GPU as a host, where there is one.
#include <gtest/gtest.h>

#include <cmath>

#include "calibration/backends/cuda/driver/cuda_driver.h"
#include "calibration/backends/measure.h"
#include "calibration/control/cuda/cuda_control.h"

namespace gpueta {
namespace {

class CudaControlDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto driver = OpenCudaDriver(); !driver.ok()) GTEST_SKIP() << driver.status();
    auto control = OpenCudaControl(0, {});
    if (absl::IsUnimplemented(control.status())) GTEST_SKIP() << control.status();
    ASSERT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
  }

  // About half of the SMs.
  Configuration Half() const {
    Configuration half = Unrestricted(control_->space());
    const KnobRange& units = *control_->space().range(Knob::kUnits);
    while (At(half, Knob::kUnits) > units.most / 2) {
      At(half, Knob::kUnits) =
          units.least + units.step * std::floor((At(half, Knob::kUnits) - 1 - units.least) / units.step);
    }
    return half;
  }
  // GB/s of a copy and TFLOPS of a product in fp32; 0 where it cannot be run.
  struct Rates {
    double copy_gb_s = 0;
    double fp32_tflops = 0;
  };
  Rates RatesIn(const Configuration& configuration) {
    const auto backend = control_->Apply(configuration);
    EXPECT_TRUE(backend.ok()) << backend.status();
    if (!backend.ok()) return {};
    const auto latency_us = [&](const Kernel& kernel) {
      const auto measured = MeasureKernel(**backend, kernel, (*backend)->timing_policy(), SteadyMicroseconds);
      EXPECT_TRUE(measured.ok()) << measured.status();
      return measured.ok() ? measured->measurement.latency_us : 0;
    };
    Rates rates;
    const Kernel copy{.dtype = DType::kFp32, .work = Vector{.op = "copy", .rows = 1 << 15, .cols = 4096}};
    rates.copy_gb_s = static_cast<double>(CountsOf(copy).bytes().value()) / latency_us(copy) / 1e3;
    const Kernel product{.dtype = DType::kFp32, .work = Gemm{.m = 4096, .n = 4096, .k = 4096}};
    if ((*backend)->Supports(product).ok()) {
      rates.fp32_tflops = static_cast<double>(CountsOf(product).flops.value()) / latency_us(product) / 1e6;
    }
    return rates;
  }

  std::unique_ptr<DeviceControl> control_;
};

TEST_F(CudaControlDeviceTest, HalfTheSmsComputeAtAboutHalfTheRate) {
  const Rates whole = RatesIn(Unrestricted(control_->space()));
  const Rates half = RatesIn(Half());
  if (whole.fp32_tflops == 0) GTEST_SKIP() << "no cuBLASLt";
  EXPECT_LT(half.fp32_tflops, 0.75 * whole.fp32_tflops);
  EXPECT_GT(half.fp32_tflops, 0.3 * whole.fp32_tflops);
}

TEST_F(CudaControlDeviceTest, OtherSmsTakeBandwidthAwayAndGiveItBack) {
  Configuration contended = Half();
  if (!control_->space().range(Knob::kContention).has_value()) GTEST_SKIP() << "one group of SMs";
  const double alone = RatesIn(Half()).copy_gb_s;
  At(contended, Knob::kContention) = 1;
  EXPECT_LT(RatesIn(contended).copy_gb_s, 0.9 * alone);
  EXPECT_EQ(control_->Disturbance(), "");
  EXPECT_NEAR(RatesIn(Half()).copy_gb_s / alone, 1, 0.1);
}

// The thread has the whole device again: memory and streams of it still work.
TEST_F(CudaControlDeviceTest, RestoringGivesTheWholeDeviceBack) {
  const Rates before = RatesIn(Unrestricted(control_->space()));
  RatesIn(Half());
  ASSERT_TRUE(control_->Restore().ok());
  EXPECT_NEAR(RatesIn(Unrestricted(control_->space())).copy_gb_s / before.copy_gb_s, 1, 0.1);
}

}  // namespace
}  // namespace gpueta
