#include "calibration/backends/cuda/driver/nvml_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A card as an old driver tells of it: functions that tests do not fill in are
// missing.
nvml::Api SmallApi() {
  nvml::Api api;
  api.nvmlErrorString = [](nvml::Result result) { return result == nvml::kNoPermission ? "No Permission" : "Failed"; };
  api.nvmlDeviceGetHandleByPciBusId_v2 = [](const char* bus, nvml::Device*) {
    return std::strcmp(bus, "0000:17:00.0") == 0 ? nvml::kSuccess : nvml::kNotFound;
  };
  api.nvmlDeviceGetUUID = [](nvml::Device, char* text, unsigned size) {
    std::strncpy(text, "GPU-17", size);
    return nvml::kSuccess;
  };
  api.nvmlDeviceGetClockInfo = [](nvml::Device, int clock, unsigned* mhz) {
    *mhz = clock == nvml::kSmClock ? 1410 : 1593;
    return nvml::kSuccess;
  };
  return api;
}

TEST(NvmlCardTest, LeavesUnknownWhatTheDriverDoesNotTell) {
  const nvml::Api api = SmallApi();
  const auto card = OpenNvmlCard(api, "0000:17:00.0");
  ASSERT_TRUE(card.ok()) << card.status();
  const auto info = (*card)->Info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->uuid, "GPU-17");
  EXPECT_EQ(info->name, "");
  EXPECT_EQ(info->power_limit_w, 0);
  const auto state = (*card)->State();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->sm_clock_mhz, 1410);
  EXPECT_EQ(state->memory_clock_mhz, 1593);
  EXPECT_EQ(state->power_w, 0);
  EXPECT_EQ((*card)->Processes().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ((*card)->ResetSmClocks().code(), absl::StatusCode::kUnimplemented);
}

TEST(NvmlCardTest, SaysWhichSettingIsNotPermitted) {
  nvml::Api api = SmallApi();
  api.nvmlDeviceSetGpuLockedClocks = [](nvml::Device, unsigned, unsigned) { return nvml::kNoPermission; };
  const auto card = OpenNvmlCard(api, "0000:17:00.0");
  const absl::Status status = (*card)->LockSmClocks(900, 900);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(MessageOf(status), HasSubstr("nvmlDeviceSetGpuLockedClocks: No Permission"));
}

TEST(NvmlCardTest, ConvertsUnits) {
  nvml::Api api = SmallApi();
  api.nvmlDeviceGetPowerManagementLimit = [](nvml::Device, unsigned* milliwatts) {
    *milliwatts = 350'500;
    return nvml::kSuccess;
  };
  static unsigned limit = 0;
  api.nvmlDeviceSetPowerManagementLimit = [](nvml::Device, unsigned milliwatts) {
    limit = milliwatts;
    return nvml::kSuccess;
  };
  api.nvmlDeviceGetUtilizationRates = [](nvml::Device, nvml::Utilization* utilization) {
    utilization->gpu = 37;
    return nvml::kSuccess;
  };
  api.nvmlDeviceGetCurrentClocksThrottleReasons = [](nvml::Device, unsigned long long* reasons) {
    *reasons = 0x24;
    return nvml::kSuccess;
  };
  const auto card = OpenNvmlCard(api, "0000:17:00.0");
  EXPECT_DOUBLE_EQ((*card)->Info()->power_limit_w, 350.5);
  ASSERT_TRUE((*card)->SetPowerLimit(250.5).ok());
  EXPECT_EQ(limit, 250'500U);
  const CardState state = (*card)->State().value();
  EXPECT_DOUBLE_EQ(state.busy, 0.37);
  EXPECT_TRUE(state.Limited(ClockLimit::kPowerCap));
  EXPECT_TRUE(state.Limited(ClockLimit::kSoftThermal));
  EXPECT_FALSE(state.Limited(ClockLimit::kIdle));
}

TEST(NvmlCardTest, ListsProcessesHoweverMany) {
  nvml::Api api = SmallApi();
  api.nvmlDeviceGetComputeRunningProcesses_v3 = [](nvml::Device, unsigned* count, nvml::ProcessInfo* infos) {
    constexpr unsigned kRunning = 40;
    const bool fits = *count >= kRunning;
    *count = kRunning;
    if (!fits) return nvml::kInsufficientSize;
    for (unsigned i = 0; i < kRunning; ++i)
      infos[i] = {.pid = i, .used_memory = i == 0 ? nvml::kMemoryNotAvailable : i};
    return nvml::kSuccess;
  };
  const auto card = OpenNvmlCard(api, "0000:17:00.0");
  const auto processes = (*card)->Processes();
  ASSERT_TRUE(processes.ok()) << processes.status();
  ASSERT_EQ(processes->size(), 40U);
  EXPECT_EQ(processes->front().memory_bytes, 0U);
  EXPECT_EQ(processes->back().memory_bytes, 39U);
}

TEST(NvmlCardTest, ListsClocksHighestFirst) {
  nvml::Api api = SmallApi();
  api.nvmlDeviceGetSupportedMemoryClocks = [](nvml::Device, unsigned* count, unsigned* mhz) {
    *count = 2;
    mhz[0] = 810;
    mhz[1] = 1593;
    return nvml::kSuccess;
  };
  const auto card = OpenNvmlCard(api, "0000:17:00.0");
  EXPECT_THAT((*card)->MemoryClocks().value(), ElementsAre(1593, 810));
}

TEST(NvmlCardTest, DoesNotFindAnotherBus) {
  const nvml::Api api = SmallApi();
  EXPECT_EQ(OpenNvmlCard(api, "0000:18:00.0").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gpueta
