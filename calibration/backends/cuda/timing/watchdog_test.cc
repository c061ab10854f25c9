#include "calibration/backends/cuda/timing/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibration/backends/cuda/simulated/simulated_driver.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

absl::Status RunAndAwait(SimulatedDriver& driver, const std::string& name, double block_flops) {
  const auto device = driver.OpenSimulated();
  const StreamHandle stream = device->CreateStream().value();
  const EventHandle event = device->CreateEvent().value();
  EXPECT_TRUE(device->Enqueue({.name = name, .block_flops = block_flops}, stream).ok());
  EXPECT_TRUE(device->Record(event, stream).ok());
  return Await(*device, event, name, driver.Time(), 1e6);
}

TEST(WatchdogTest, WaitsForKernelsThatEnd) {
  SimulatedDriver driver({});
  EXPECT_TRUE(RunAndAwait(driver, "short", 1).ok());
  EXPECT_TRUE(RunAndAwait(driver, "long", 5e10).ok());
}

TEST(WatchdogTest, GivesUpOnAKernelThatHangsNamingIt) {
  SimulatedDriver driver({.hangs = "spin"});
  const double start_us = driver.Time().now();
  const absl::Status status = RunAndAwait(driver, "spin_forever", 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(status), testing::HasSubstr("spin_forever"));
  EXPECT_NEAR(driver.Time().now() - start_us, 1e6, 1e4);
}

}  // namespace
}  // namespace gpueta
