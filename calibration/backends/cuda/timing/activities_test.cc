#include "calibration/backends/cuda/timing/activities.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpueta {
namespace {

KernelActivity Ran(const char* name, double start_us, double end_us) {
  return {.name = name, .grid = {4, 2, 1}, .block = {128, 1, 1}, .start_us = start_us, .end_us = end_us};
}

TEST(ActivitiesTest, GapsDoNotCountAndOverlapsCountOnce) {
  EXPECT_EQ(DeviceTimeUs({}), 0);
  EXPECT_EQ(DeviceTimeUs(std::vector{Ran("a", 10, 15), Ran("b", 18, 20)}), 7);
  EXPECT_EQ(DeviceTimeUs(std::vector{Ran("a", 10, 20), Ran("b", 12, 14), Ran("c", 19, 25)}), 15);
}

TEST(ActivitiesTest, OrderOfRecordsDoesNotMatter) {
  EXPECT_EQ(DeviceTimeUs(std::vector{Ran("b", 18, 20), Ran("a", 10, 15)}), 7);
}

TEST(ActivitiesTest, TheLongestKernelNamesTheLaunch) {
  const Launch known{.kernel = "guess", .grid_x = 1, .grid_y = 1, .grid_z = 1};
  const std::vector<KernelActivity> activities = {Ran("void cub::init<int>(int*)", 0, 1),
                                                  Ran("void cutlass::Kernel2<cutlass::gemm>(P)", 2, 20)};
  EXPECT_EQ(LaunchOf(activities, known),
            (Launch{.kernel = "Kernel2", .grid_x = 4, .grid_y = 2, .grid_z = 1, .block_x = 128}));
  EXPECT_EQ(LaunchOf({}, known), known);
}

TEST(ActivitiesTest, ShortKernelsThatRunOftenCanBeTheLongest) {
  const std::vector<KernelActivity> activities = {Ran("often", 0, 4), Ran("once", 4, 9), Ran("often", 9, 13)};
  EXPECT_EQ(LaunchOf(activities, {}).kernel, "often");
}

}  // namespace
}  // namespace gpueta
