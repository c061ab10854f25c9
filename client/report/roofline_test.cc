#include "client/report/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/report/testing_xml.h"

namespace gpueta::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

DeviceSpec Spec() {
  return {
      .slug = "card", .sm_count = 10, .mem_bandwidth_gb_s = 100, .l2_mb = 4, .fp32_tflops = 1, .fp16_tensor_tflops = 4};
}
Kernel Product(DType dtype) {
  return {.name = "n", .dtype = dtype, .work = Gemm{.m = 1000, .n = 1000, .k = 1000}, .launch = {}};
}

TEST(RooflineTest, APointHasItsRateAndEachTypeItsRoof) {
  // 2 GFLOP in 4 ms are 500 GFLOP/s; 12 MB of traffic, 167 FLOP a byte.
  const std::string svg =
      Roofline("r", Spec(), {{Product(DType::kFp32), 4000, 0.5}, {Product(DType::kFp16), 4000, 0.5}});
  EXPECT_EQ(WhatIsMalformed(svg), "");
  EXPECT_THAT(svg, HasSubstr("4 ms, 500 GFLOP/s, 167 FLOP/B"));
  EXPECT_THAT(svg, HasSubstr("fp32 1 TFLOP/s"));
  EXPECT_THAT(svg, HasSubstr("fp16 4 TFLOP/s"));
  EXPECT_THAT(svg, HasSubstr("gemm"));
}

TEST(RooflineTest, WhatComputesNothingIsLeftOut) {
  Kernel copy{.name = "c",
              .dtype = DType::kFp32,
              .work = Collective{.op = "all_reduce", .backend = "nccl", .bytes = 8, .ranks = 2},
              .launch = {}};
  EXPECT_EQ(Roofline("r", Spec(), {{copy, 10, 1}}), "");
  EXPECT_THAT(Roofline("r", Spec(), {{copy, 10, 0.5}, {Product(DType::kFp32), 10, 0.5}}), Not(HasSubstr("all_reduce")));
  EXPECT_EQ(Roofline("r", Spec(), {}), "");
}

}  // namespace
}  // namespace gpueta::report
