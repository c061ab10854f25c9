#include "core/device/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/device/catalogue.h"

namespace gpueta {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DeviceSpec Known(std::string_view slug) { return *Catalogue::BuiltIn().Get(slug); }

TEST(MigProfilesOfTest, AreNamedAsNvidiaNamesThem) {
  EXPECT_THAT(MigProfilesOf(Known("a100-sxm4-40gb")),
              ElementsAre("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"));
  EXPECT_THAT(MigProfilesOf(Known("h100-sxm")),
              ElementsAre("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"));
  EXPECT_THAT(MigProfilesOf(Known("h200-sxm")),
              ElementsAre("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"));
  EXPECT_THAT(MigProfilesOf(Known("b200-sxm")),
              ElementsAre("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"));
  EXPECT_THAT(MigProfilesOf(Known("a30-pcie")), ElementsAre("1g.6gb", "2g.12gb", "4g.24gb"));
  EXPECT_THAT(MigProfilesOf(Known("l40s")), IsEmpty());
}

TEST(SliceOfTest, HasItsShareOfSmsBandwidthCacheAndMemory) {
  const DeviceSpec whole = Known("h100-sxm");
  const auto slice = SliceOf(whole, "3g.40gb");
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ(slice->slug, "h100-sxm/3g.40gb");
  EXPECT_EQ(slice->sm_count, 60);
  EXPECT_DOUBLE_EQ(slice->mem_bandwidth_gb_s, whole.mem_bandwidth_gb_s / 2);
  EXPECT_DOUBLE_EQ(slice->l2_mb, whole.l2_mb / 2);
  EXPECT_DOUBLE_EQ(slice->memory_gb, 40);
  EXPECT_DOUBLE_EQ(slice->bf16_tensor_tflops, whole.bf16_tensor_tflops * 60 / 132);
  EXPECT_EQ(SliceOf(Known("a100-sxm4-80gb"), "1g.10gb")->sm_count, 14);
}

TEST(SliceOfTest, AShareOfSmsKeepsTheMemory) {
  const DeviceSpec whole = Known("l40s");
  const auto slice = SliceOf(whole, "sm=0.5");
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ(slice->sm_count, 71);
  EXPECT_DOUBLE_EQ(slice->mem_bandwidth_gb_s, whole.mem_bandwidth_gb_s);
  EXPECT_DOUBLE_EQ(slice->memory_gb, whole.memory_gb);
}

TEST(SliceOfTest, ErrorsListWhatTheCardOffers) {
  EXPECT_THAT(MessageOf(SliceOf(Known("h100-sxm"), "3g.20gb").status()),
              AllOf(HasSubstr("3g.40gb"), HasSubstr("sm=0.5")));
  EXPECT_THAT(MessageOf(SliceOf(Known("l40s"), "1g.6gb").status()), HasSubstr("no MIG profiles"));
  for (const char* bad : {"sm=", "sm=0", "sm=1.5", "sm=nan", "sm=0.5x", ""})
    EXPECT_TRUE(absl::IsInvalidArgument(SliceOf(Known("l40s"), bad).status())) << bad;
}

}  // namespace
}  // namespace gpueta
