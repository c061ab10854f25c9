#include "core/importers/traces/traced_device.h"

#include <gtest/gtest.h>

namespace gpueta {
namespace {

constexpr std::int64_t kGib = std::int64_t{1} << 30;

TEST(TracedDeviceTest, IsTheOneThatFits) {
  EXPECT_EQ(SlugOf({"NVIDIA A100-SXM4-80GB", 108, 79 * kGib}), "a100-sxm4-80gb");
  EXPECT_EQ(SlugOf({"NVIDIA A100-SXM4-80GB", 0, 0}), "a100-sxm4-80gb");
  EXPECT_EQ(SlugOf({"NVIDIA H100 80GB HBM3", 132, 79 * kGib}), "h100-sxm");
  EXPECT_EQ(SlugOf({"NVIDIA H100 PCIe", 114, 79 * kGib}), "h100-pcie");
  EXPECT_EQ(SlugOf({"Tesla V100-SXM2-16GB", 80, 16 * kGib}), "v100-sxm2");
  EXPECT_EQ(SlugOf({"Tesla T4", 40, 15 * kGib}), "t4");
  EXPECT_EQ(SlugOf({"NVIDIA GeForce RTX 4090", 128, 24 * kGib}), "rtx-4090");
  EXPECT_EQ(SlugOf({"NVIDIA GeForce RTX 3090 Ti", 84, 24 * kGib}), "rtx-3090-ti");
}

TEST(TracedDeviceTest, IsNotGuessed) {
  EXPECT_EQ(SlugOf({"", 132, 79 * kGib}), "");
  EXPECT_EQ(SlugOf({"NVIDIA H100 80GB HBM3", 64, 79 * kGib}), "");
  EXPECT_EQ(SlugOf({"AMD Instinct MI999X", 304, 192 * kGib}), "");
}

TEST(TracedDeviceTest, IsEmptyWhereSeveralFit) {
  EXPECT_EQ(SlugOf({"NVIDIA A100", 108, 0}), "");
  EXPECT_EQ(SlugOf({"NVIDIA H100 PCIe", 114, 0}), "h100-pcie");
}

}  // namespace
}  // namespace gpueta
