#include "calibration/backends/cpu/cpu_info.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

TEST(CpuSlugTest, KeepsWhatNamesTheModel) {
  const struct {
    const char* model;
    int threads;
    const char* slug;
  } kCases[] = {
      {"AMD EPYC", 2, "cpu-amd-epyc-2t"},
      {"AMD EPYC 9654 96-Core Processor", 8, "cpu-amd-epyc-9654-8t"},
      {"Intel(R) Xeon(R) Platinum 8480+", 112, "cpu-intel-xeon-platinum-8480-112t"},
      {"Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", 28, "cpu-intel-xeon-e5-2680-v4-28t"},
      {"AMD Ryzen 7 7840U w/ Radeon 780M Graphics", 16, "cpu-amd-ryzen-7-7840u-w-radeon-780m-graphics-16t"},
      {"", 4, "cpu-4t"},
  };
  for (const auto& c : kCases) EXPECT_EQ(CpuSlug(c.model, c.threads), c.slug);
}

TEST(CpuInfoTest, ReadsModelAndHighestClock) {
  const CpuInfo info = ParseCpuInfo(
      "processor\t: 0\nmodel name\t: Some CPU\ncpu MHz\t\t: 1200.000\n\n"
      "processor\t: 1\nmodel name\t: Some CPU\ncpu MHz\t\t: 3500.250\n");
  EXPECT_EQ(info.model, "Some CPU");
  EXPECT_EQ(info.clock_mhz, 3500.25);
}

TEST(CpuInfoTest, LeavesUnknownEmpty) {
  EXPECT_EQ(ParseCpuInfo("").model, "");
  EXPECT_EQ(ParseCpuInfo("BogoMIPS : 50\n").clock_mhz, 0);
}

TEST(CacheSizeTest, ReadsUnits) {
  EXPECT_EQ(ParseCacheSize("48K"), 48U << 10);
  EXPECT_EQ(ParseCacheSize("32768K"), 32U << 20);
  EXPECT_EQ(ParseCacheSize("2M"), 2U << 20);
  EXPECT_EQ(ParseCacheSize("512"), 512U);
  for (const char* bad : {"", "K", "12X", "12KB", "-3K"}) EXPECT_EQ(ParseCacheSize(bad), 0U) << bad;
}

}  // namespace
}  // namespace gpueta
