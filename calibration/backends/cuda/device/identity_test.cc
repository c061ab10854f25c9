#include "calibration/backends/cuda/device/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/catalogue.h"

namespace gpueta {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

constexpr std::size_t kGib = std::size_t{1} << 30;

DeviceProperties A100() {
  return {.name = "NVIDIA A100-SXM4-80GB",
          .uuid = "GPU-5bd14b18-7f4f-4bb5-a2ac-0ad4a0b37cf8",
          .compute_major = 8,
          .compute_minor = 0,
          .sm_count = 108,
          .memory_bytes = 79 * kGib,
          .l2_bytes = std::size_t{40} << 20,
          .sm_clock_mhz = 1410,
          .memory_clock_mhz = 1593,
          .driver_version = 13000};
}

TEST(IdentityTest, ACardOfTheCatalogueHasItsDataSheet) {
  EXPECT_EQ(SlugOf(A100()), "a100-sxm4-80gb");
  const DeviceSpec spec = SpecOf(A100());
  const DeviceSpec sheet = Catalogue::BuiltIn().Get("a100-sxm4-80gb").value();
  EXPECT_EQ(spec.bf16_tensor_tflops, sheet.bf16_tensor_tflops);
  EXPECT_EQ(spec.mem_bandwidth_gb_s, sheet.mem_bandwidth_gb_s);
  EXPECT_EQ(spec.slug, "a100-sxm4-80gb");
}

TEST(IdentityTest, AMigInstanceIsADeviceOfItsOwnWithItsShare) {
  DeviceProperties device = A100();
  device.name += " MIG 2g.20gb";
  device.sm_count = 28;
  device.memory_bytes = 20 * kGib;
  EXPECT_EQ(SlugOf(device), "a100-sxm4-80gb-mig-2g.20gb");
  EXPECT_EQ(MigProfileOf(device), "2g.20gb");
  const DeviceSpec whole = SpecOf(A100());
  const DeviceSpec part = SpecOf(device);
  EXPECT_EQ(part.sm_count, 28);
  EXPECT_NEAR(part.bf16_tensor_tflops / whole.bf16_tensor_tflops, 28.0 / 108, 1e-9);
  EXPECT_NEAR(part.mem_bandwidth_gb_s / whole.mem_bandwidth_gb_s, 0.25, 0.03);
  EXPECT_THAT(LabelsOf(device, std::nullopt, {}, false), Contains(Pair("slice", "mig-2g.20gb")));
}

TEST(IdentityTest, AnUnknownCardGoesByItsNameAndHasNoPeaks) {
  const DeviceProperties device{.name = "NVIDIA Rubin XR-1", .compute_major = 14, .sm_count = 200};
  EXPECT_EQ(SlugOf(device), "rubin-xr-1");
  EXPECT_EQ(SpecOf(device).fp32_tflops, 0);
  EXPECT_EQ(SpecOf(device).sm_count, 200);
  EXPECT_EQ(SlugOf({}), "unknown-gpu");
}

TEST(IdentityTest, LabelsSayWhatTheProfileIsTrueFor) {
  const CardInfo card{.driver_version = "580.65.06", .power_limit_w = 350};
  const auto labels = LabelsOf(A100(), card, {{"cublaslt", "13.1.0"}}, true);
  EXPECT_THAT(labels, Contains(Pair("driver", "580.65.06")));
  EXPECT_THAT(labels, Contains(Pair("cuda", "13.0")));
  EXPECT_THAT(labels, Contains(Pair("cublaslt", "13.1.0")));
  EXPECT_THAT(labels, Contains(Pair("power_limit_w", "350")));
  EXPECT_THAT(labels, Contains(Pair("ecc", "off")));
  EXPECT_THAT(labels, Contains(Pair("mps", "on")));
  EXPECT_THAT(LabelsOf(A100(), std::nullopt, {}, false), Not(Contains(Key("driver"))));
}

TEST(IdentityTest, TheUuidIsHashed) {
  const std::string hashed = LabelsOf(A100(), std::nullopt, {}, false).at("uuid");
  EXPECT_EQ(hashed.size(), 12U);
  EXPECT_EQ(A100().uuid.find(hashed), std::string::npos);
  DeviceProperties other = A100();
  other.uuid.back() = '9';
  EXPECT_NE(LabelsOf(other, std::nullopt, {}, false).at("uuid"), hashed);
}

}  // namespace
}  // namespace gpueta
