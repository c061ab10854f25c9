#include "core/device/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/device/catalogue.h"

namespace gpueta {
namespace {

using ::testing::DoubleNear;

DeviceSpec Card(std::string_view slug) { return Catalogue::BuiltIn().Get(slug).value(); }

TEST(PeakTflops, AgreesWithHandCheckedCards) {
  struct Case {
    const char* slug;
    double fp64, fp32, tf32, fp16, bf16, fp8, int8, int4;
  };
  const Case cases[] = {
      // GP100: fp64 at half, fp16 at twice the fp32 rate, no DP4A.
      {"p100-pcie-16gb", 9.53 / 2, 9.53, 9.53, 19.06, 9.53, 19.06, 9.53, 19.06},
      // GP102: token fp16 and fp64, DP4A.
      {"gtx-1080-ti", 11.34 / 32, 11.34, 11.34, 11.34, 11.34, 11.34, 4 * 11.34, 11.34},
      // First tensor cores: fp16 only.
      {"v100-pcie-32gb", 14.13 / 2, 14.13, 14.13, 113.0, 14.13, 113.0, 4 * 14.13, 113.0},
      {"t4", 8.14 / 32, 8.14, 8.14, 65.1, 8.14, 65.1, 130.3, 65.1},
      {"a100-sxm4-80gb", 19.49 / 2, 19.49, 155.9, 311.9, 311.9, 311.9, 623.7, 311.9},
      {"h100-sxm", 66.91 / 2, 66.91, 494.7, 989.4, 989.4, 1978.9, 1978.9, 989.4},
      {"l40s", 91.61 / 64, 91.61, 183, 362.05, 362.05, 733, 733, 362.05},
      // GeForce: half the tensor rate with fp32 accumulation.
      {"rtx-4090", 82.58 / 64, 82.58, 82.6, 165.2, 165.2, 660.6, 660.6, 165.2},
      {"b300-sxm", 80.0 / 64, 80, 1125, 2250, 2250, 4500, 153.5, 2250},
      {"gb200", 80.0 / 2, 80, 1250, 2500, 2500, 5000, 5000, 2500},
  };
  for (const Case& c : cases) {
    const DeviceSpec spec = Card(c.slug);
    const std::pair<DType, double> expected[] = {
        {DType::kFp64, c.fp64}, {DType::kFp32, c.fp32}, {DType::kTf32, c.tf32}, {DType::kFp16, c.fp16},
        {DType::kBf16, c.bf16}, {DType::kFp8, c.fp8},   {DType::kInt8, c.int8}, {DType::kInt4, c.int4},
    };
    for (const auto& [dtype, tflops] : expected) {
      EXPECT_DOUBLE_EQ(PeakTflops(spec, dtype), tflops) << c.slug << " " << Name(dtype);
    }
  }
}

TEST(PeakTflops, InfersTensorRatesThatEveryCardOfTheCapabilityHas) {
  DeviceSpec spec{.slug = "mine", .compute_capability = 9.0, .fp32_tflops = 50};
  EXPECT_EQ(PeakTflops(spec, DType::kFp16), 14 * 50);
  EXPECT_EQ(PeakTflops(spec, DType::kBf16), 14 * 50);
  EXPECT_EQ(PeakTflops(spec, DType::kTf32), 7 * 50);
  EXPECT_EQ(PeakTflops(spec, DType::kFp8), 28 * 50);
  EXPECT_EQ(PeakTflops(spec, DType::kInt8), 28 * 50);
  spec.bf16_tensor_tflops = 800;
  EXPECT_EQ(PeakTflops(spec, DType::kFp16), 800);
  EXPECT_EQ(PeakTflops(spec, DType::kFp8), 1600);
  spec.compute_capability = 0;  // unknown: nothing is promised
  EXPECT_EQ(PeakTflops(spec, DType::kTf32), 50);
}

TEST(PeakTflops, RunsNarrowTypesOfACpuInFp32) {
  const DeviceSpec cpu{.slug = "cpu-x", .architecture = "CPU", .sm_count = 2, .boost_clock_mhz = 3000};
  for (const DType dtype : kAllDTypes) {
    const double expected = 2 * 3.0e-3 * 32 * (dtype == DType::kFp64 ? 0.5 : 1);
    EXPECT_DOUBLE_EQ(PeakTflops(cpu, dtype), expected) << Name(dtype);
  }
}

TEST(PeakTflops, IsAtLeastTheNextWiderTypeOnTensorCores) {
  for (const CatalogueEntry& entry : Catalogue::BuiltIn().entries()) {
    const DeviceSpec& spec = entry.spec;
    EXPECT_GE(PeakTflops(spec, DType::kFp16), PeakTflops(spec, DType::kFp32)) << spec.slug;
    EXPECT_GE(PeakTflops(spec, DType::kFp8), PeakTflops(spec, DType::kBf16)) << spec.slug;
    EXPECT_LT(PeakTflops(spec, DType::kFp64), PeakTflops(spec, DType::kFp32)) << spec.slug;
  }
}

void ExpectUsable(const DeviceSpec& spec) {
  const DeviceSpec whole = WithInferredCells(spec);
  for (const double cell : {static_cast<double>(whole.sm_count), whole.base_clock_mhz, whole.boost_clock_mhz,
                            whole.mem_bandwidth_gb_s, whole.l2_mb, whole.fp32_tflops}) {
    EXPECT_TRUE(std::isfinite(cell) && cell > 0) << spec.slug;
  }
  for (const DType dtype : kAllDTypes) {
    const double tflops = PeakTflops(spec, dtype);
    EXPECT_TRUE(std::isfinite(tflops) && tflops > 0) << spec.slug << " " << Name(dtype);
    EXPECT_DOUBLE_EQ(PeakTflops(whole, dtype), tflops) << spec.slug << " " << Name(dtype);
  }
  EXPECT_EQ(WithInferredCells(whole), whole) << spec.slug;
}

TEST(WithInferredCells, MakesEveryCatalogueRowUsable) {
  for (const CatalogueEntry& entry : Catalogue::BuiltIn().entries()) ExpectUsable(entry.spec);
}

TEST(WithInferredCells, MakesAnySubsetOfCellsUsable) {
  for (const char* architecture : {"", "CPU"}) {
    for (unsigned given = 0; given < (1U << 7); ++given) {
      const auto has = [given](int bit) { return (given >> bit) & 1U; };
      DeviceSpec spec{.slug = std::to_string(given), .architecture = architecture};
      if (has(0)) spec.compute_capability = 8.9;
      if (has(1)) spec.sm_count = 100;
      if (has(2)) spec.base_clock_mhz = 1500;
      if (has(3)) spec.boost_clock_mhz = 2000;
      if (has(4)) spec.mem_bandwidth_gb_s = 800;
      if (has(5)) spec.l2_mb = 50;
      if (has(6)) spec.fp32_tflops = 60;
      ExpectUsable(spec);
    }
  }
}

TEST(WithInferredCells, KeepsListedCells) {
  for (const char* slug : {"t4", "h100-sxm", "rtx-4090"}) EXPECT_EQ(WithInferredCells(Card(slug)), Card(slug));
}

TEST(WithInferredCells, FindsTheBlackwellUltraChip) {
  const DeviceSpec b300 = WithInferredCells(Card("b300-sxm"));
  EXPECT_EQ(b300.sm_count, 160);  // as NVIDIA says of Blackwell Ultra
  EXPECT_EQ(b300.boost_clock_mhz, 1965);
  EXPECT_THAT(b300.l2_mb, DoubleNear(126, 15));
  EXPECT_EQ(WithInferredCells(Card("gb200")).sm_count, 160);
}

// Take each cell away from every row that lists it and infer it again. Counts
// and rates follow from each other; the rest is a guess that has to be of the
// right size.
TEST(WithInferredCells, RecoversCellsThatAreTakenAway) {
  std::map<std::string, std::vector<double>> ratios;
  for (const CatalogueEntry& entry : Catalogue::BuiltIn().entries()) {
    const DeviceSpec& listed = entry.spec;
    if (listed.sm_count == 0) continue;
    DeviceSpec spec = listed;
    spec.sm_count = 0;
    EXPECT_LE(std::abs(WithInferredCells(spec).sm_count - listed.sm_count), 1) << listed.slug;
    spec = listed;
    spec.fp32_tflops = 0;
    EXPECT_NEAR(WithInferredCells(spec).fp32_tflops / listed.fp32_tflops, 1, 0.01) << listed.slug;
    spec = listed;
    spec.base_clock_mhz = spec.boost_clock_mhz = 0;
    EXPECT_NEAR(WithInferredCells(spec).boost_clock_mhz / listed.boost_clock_mhz, 1, 0.01) << listed.slug;
    ratios["base clock"].push_back(WithInferredCells(spec).base_clock_mhz / listed.base_clock_mhz);
    spec = listed;
    spec.mem_bandwidth_gb_s = 0;
    ratios["bandwidth"].push_back(WithInferredCells(spec).mem_bandwidth_gb_s / listed.mem_bandwidth_gb_s);
    spec = listed;
    spec.l2_mb = 0;
    ratios["l2"].push_back(WithInferredCells(spec).l2_mb / listed.l2_mb);
    spec = listed;
    spec.sm_count = 0;
    spec.base_clock_mhz = spec.boost_clock_mhz = 0;
    ratios["sm_count without clocks"].push_back(static_cast<double>(WithInferredCells(spec).sm_count) /
                                                static_cast<double>(listed.sm_count));
  }
  for (auto& [cell, values] : ratios) {
    std::ranges::sort(values);
    EXPECT_NEAR(values[values.size() / 2], 1, 0.1) << cell;
    EXPECT_GT(values[values.size() / 20], 0.4) << cell;
    EXPECT_LT(values[values.size() - 1 - values.size() / 20], 2.5) << cell;
  }
}

}  // namespace
}  // namespace gpueta
