#include "core/device/relatedness.h"

#include <gtest/gtest.h>

#include "core/device/catalogue.h"

namespace gpueta {
namespace {

DeviceSpec Spec(const char* slug) { return Catalogue::BuiltIn().Get(slug).value(); }

TEST(SustainedShareTest, OnlyBoardsShortOfPowerLowerTheirClocks) {
  EXPECT_NEAR(SustainedShare(Spec("t4"), DType::kFp32), 0.56, 0.05);
  EXPECT_LT(SustainedShare(Spec("l4"), DType::kBf16), 0.8);
  EXPECT_GT(SustainedShare(Spec("rtx-4090"), DType::kFp32), 0.85);
  for (const char* stacked : {"p100-pcie-16gb", "v100-sxm2", "a100-sxm4-80gb", "h100-sxm", "b200-sxm"}) {
    EXPECT_EQ(SustainedShare(Spec(stacked), DType::kFp32), 1) << stacked;
  }
}

TEST(SustainedShareTest, AnUnknownPowerLimitLimitsNothing) {
  DeviceSpec spec = Spec("t4");
  spec.tdp_w = 0;
  EXPECT_EQ(SustainedShare(spec, DType::kFp32), 1);
}

TEST(RelatednessTest, IsOneForADeviceItselfAndSymmetric) {
  for (const char* a : {"p4", "t4", "l40s", "h100-sxm"}) {
    EXPECT_EQ(Relatedness(Spec(a), Spec(a), DType::kFp16), 1);
    for (const char* b : {"a100-pcie-40gb", "rtx-3090"})
      EXPECT_EQ(Relatedness(Spec(a), Spec(b), DType::kFp16), Relatedness(Spec(b), Spec(a), DType::kFp16));
  }
}

TEST(RelatednessTest, CardsOfOneDieAreCloserThanOthers) {
  const auto related = [](const char* a, const char* b) { return Relatedness(Spec(a), Spec(b), DType::kBf16); };
  EXPECT_GT(related("h200-sxm", "h100-sxm"), 0.8);
  EXPECT_GT(related("a100-pcie-80gb", "a100-sxm4-80gb"), 0.9);
  EXPECT_LT(related("h200-sxm", "a100-sxm4-80gb"), 0.5);
  EXPECT_LT(related("h200-sxm", "l40s"), 0.2);
  EXPECT_GT(related("l4", "l40s"), related("l4", "h100-sxm"));
  EXPECT_LT(related("p100-pcie-16gb", "v100-pcie-32gb"), 0.3);
}

}  // namespace
}  // namespace gpueta
