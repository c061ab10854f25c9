// On a simulated GPU, which only the antagonist's thread uses until it ends.
#include "calibration/control/cuda/sm_antagonist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibration/backends/cuda/ops/kernels_ptx.h"
#include "calibration/backends/cuda/simulated/simulated_driver.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPtx = ".visible .entry contend(";

TEST(SmAntagonistTest, ItsKernelsEndWithIt) {
  SimulatedDriver driver({});
  const auto whole = driver.OpenSimulated();
  SmPartitions parts = whole->SplitSms(36).value();
  auto antagonist = SmAntagonist::Start(std::move(parts.rest), 0.5, kPtx);
  ASSERT_TRUE(antagonist.ok()) << antagonist.status();
  EXPECT_EQ((*antagonist)->Disturbance(), "");
  antagonist->reset();
  const std::size_t launches = driver.state().launches;
  EXPECT_GE(launches, 2U);
  const double host_us = driver.state().host_us;
  EXPECT_LE(driver.state().busy_until_us, host_us);  // nothing is left on the device
}

TEST(SmAntagonistTest, SaysWhatCannotBeStarted) {
  SimulatedDriver driver({});
  const auto whole = driver.OpenSimulated();
  SmPartitions parts = whole->SplitSms(36).value();
  const absl::Status status = SmAntagonist::Start(std::move(parts.rest), 1, ".visible .entry other(").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(status), HasSubstr("contend"));
}

TEST(SmAntagonistTest, ThePtxHasItsKernel) {
  if (MicroKernelsPtx().empty()) GTEST_SKIP() << "built without the CUDA toolkit";
  EXPECT_THAT(std::string(MicroKernelsPtx()), HasSubstr(".entry contend("));
}

}  // namespace
}  // namespace gpueta
