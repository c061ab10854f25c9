#include "core/feedback/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpueta {
namespace {

using ::testing::ElementsAre;

Measurement Gemm8(std::int64_t m, std::int64_t k, std::int64_t line) {
  return {.device = "t4",
          .timing = Timing::kKernel,
          .kernel = {.dtype = DType::kFp16, .work = Gemm{.batch = 1, .m = m, .n = 8, .k = k}},
          .latency_us = 1,
          .line = line};
}

std::vector<std::int64_t> LinesOf(const std::vector<NearMeasurement>& nearest) {
  std::vector<std::int64_t> lines;
  for (const NearMeasurement& near : nearest) lines.push_back(near.row->line);
  return lines;
}

TEST(NearestMeasurementsTest, AreTheNearestInOctaves) {
  const std::vector<Measurement> rows = {Gemm8(64, 64, 2), Gemm8(100, 64, 3), Gemm8(400, 64, 4), Gemm8(100, 128, 5)};
  const auto nearest = NearestMeasurements(Gemm8(128, 64, 0), "t4", rows, 3);
  EXPECT_THAT(LinesOf(nearest), ElementsAre(3, 2, 5));  // 0.36, 1 and 1.06 octaves
  EXPECT_NEAR(nearest[1].octaves, 1, 1e-12);
}

TEST(NearestMeasurementsTest, AreOfTheSameDeviceAndTable) {
  std::vector<Measurement> rows = {Gemm8(64, 64, 2), Gemm8(64, 64, 3), Gemm8(64, 64, 4), Gemm8(32, 64, 5)};
  rows[0].device = "h100-sxm";
  rows[1].timing = Timing::kEager;
  rows[2].kernel.dtype = DType::kBf16;
  EXPECT_THAT(LinesOf(NearestMeasurements(Gemm8(64, 64, 0), "t4", rows, 3)), ElementsAre(5));
}

TEST(NearestMeasurementsTest, RepetitionsAreOneShapeAndOtherLabelsComeLast) {
  std::vector<Measurement> rows = {Gemm8(64, 64, 2), Gemm8(512, 64, 3), Gemm8(512, 64, 4)};
  std::get<Gemm>(rows[0].kernel.work).layer = Gemm::Layer::kLinear;
  const auto nearest = NearestMeasurements(Gemm8(64, 64, 0), "t4", rows, 3);
  EXPECT_THAT(LinesOf(nearest), ElementsAre(3, 2));
  EXPECT_FALSE(nearest[1].same_label);
}

}  // namespace
}  // namespace gpueta
