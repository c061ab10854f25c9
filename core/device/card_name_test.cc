#include "core/device/card_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

constexpr std::int64_t kGib = std::int64_t{1} << 30;

TEST(CardNameTest, NamesAsDriversPrintThemMeanOneCard) {
  const struct {
    const char* name;
    const char* slug;
  } kCards[] = {{"NVIDIA H100 80GB HBM3", "h100-sxm"},
                {"NVIDIA H100 NVL", "h100-nvl-94gb"},
                {"NVIDIA H200", "h200-sxm"},
                {"NVIDIA H200 NVL", "h200-nvl"},
                {"NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"},
                {"NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"},
                {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
                {"A100-PCIE-40GB", "a100-pcie-40gb"},
                {"Tesla V100-SXM2-16GB", "v100-sxm2"},
                {"Tesla V100-SXM2-32GB", "v100-sxm2-32gb"},
                {"Tesla V100-PCIE-32GB", "v100-pcie-32gb"},
                {"Tesla P100-PCIE-16GB", "p100-pcie-16gb"},
                {"Tesla T4", "t4"},
                {"NVIDIA A10", "a10-pcie"},
                {"NVIDIA A2", "a2"},
                {"NVIDIA L4", "l4"},
                {"NVIDIA L40S", "l40s"},
                {"NVIDIA B200", "b200-sxm"},
                {"NVIDIA GeForce RTX 4090", "rtx-4090"},
                {"NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-mobile"},
                {"NVIDIA GeForce RTX 3090 Ti", "rtx-3090-ti"},
                {"GeForce GTX 1080 Ti", "gtx-1080-ti"},
                {"Quadro RTX 6000", "quadro-rtx-6000"},
                {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
                {"NVIDIA TITAN V", "titan-v"},
                {"NVIDIA TITAN RTX", "titan-rtx"}};
  for (const auto& card : kCards) EXPECT_THAT(CardsCalled({card.name}), ElementsAre(card.slug)) << card.name;
}

TEST(CardNameTest, WhatTheNameLeavesOpenMemoryAndSmsDecide) {
  EXPECT_THAT(CardsCalled({"NVIDIA H100 PCIe"}), ElementsAre("h100-pcie", "h100-pcie-96gb"));
  EXPECT_THAT(CardsCalled({"NVIDIA H100 PCIe", 114, 79 * kGib}), ElementsAre("h100-pcie"));
  EXPECT_EQ(CardCalled({"NVIDIA H100 PCIe", 114, 79 * kGib}), "h100-pcie");
  EXPECT_EQ(CardCalled({"NVIDIA H100 PCIe", 114, 0}), "h100-pcie");
  EXPECT_EQ(CardCalled({"NVIDIA A100", 108, 0}), "");  // several
  EXPECT_EQ(CardCalled({"AMD Instinct MI999X", 304, 192 * kGib}), "");
  EXPECT_EQ(CardCalled({"NVIDIA A100-SXM4-80GB", 108, 79 * kGib}), "a100-sxm4-80gb");
  EXPECT_EQ(CardCalled({"NVIDIA GeForce RTX 3090 Ti", 84, 24 * kGib}), "rtx-3090-ti");
  EXPECT_THAT(CardsCalled({"NVIDIA GeForce RTX 3060"}), ElementsAre("rtx-3060-12gb", "rtx-3060-8gb"));
  EXPECT_THAT(CardsCalled({"NVIDIA GeForce RTX 3060", 28, 12 * kGib}), ElementsAre("rtx-3060-12gb"));
}

TEST(CardNameTest, IsNotGuessed) {
  EXPECT_THAT(CardsCalled({""}), IsEmpty());
  EXPECT_THAT(CardsCalled({"", 132, 79 * kGib}), IsEmpty());
  EXPECT_THAT(CardsCalled({"NVIDIA"}), IsEmpty());
  EXPECT_THAT(CardsCalled({"AMD Instinct MI999X", 304, 192 * kGib}), IsEmpty());
  EXPECT_THAT(CardsCalled({"NVIDIA H100 80GB HBM3", 64, 79 * kGib}), IsEmpty());  // a part of one
  // The same board and memory do not make another model.
  EXPECT_THAT(CardsCalled({"NVIDIA X900-SXM4-80GB", 108, 80 * kGib}), IsEmpty());
  EXPECT_THAT(CardsCalled({"NVIDIA H100 40GB HBM3"}), IsEmpty());
  EXPECT_THAT(CardsCalled({"NVIDIA H100 80GB GDDR6"}), IsEmpty());
}

TEST(CardNameTest, TheCatalogueAnswersToADriversName) {
  const Catalogue& catalogue = Catalogue::BuiltIn();
  EXPECT_EQ(catalogue.Get("NVIDIA A100-SXM4-80GB")->slug, "a100-sxm4-80gb");
  EXPECT_EQ(catalogue.Get("H100 SXM5 80 GB")->slug, "h100-sxm");
  const absl::Status open = catalogue.Get("NVIDIA A100").status();
  EXPECT_EQ(open.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(open), AllOf(HasSubstr("\"NVIDIA A100\" may be any of a100-"), HasSubstr("a100-sxm4-80gb")));
  EXPECT_THAT(CardsCalled({"NVIDIA A100"}), IsSupersetOf({"a100-sxm4-40gb", "a100-sxm4-80gb"}));
  EXPECT_THAT(MessageOf(catalogue.Get("NVIDIA Rubin XR-1").status()), HasSubstr("unknown device"));
}

// Whatever the driver calls a card by its catalogue name, that card answers.
TEST(CardNameTest, NamesOfTheCatalogueMeanTheirOwnDevice) {
  int clear = 0;
  for (const CatalogueEntry& entry : Catalogue::BuiltIn().entries()) {
    const DeviceSpec& spec = entry.spec;
    const auto cards = CardsCalled({spec.name, spec.sm_count, static_cast<std::int64_t>(spec.memory_gb * 0x1p30)});
    EXPECT_THAT(cards, testing::Contains(spec.slug)) << spec.name;
    clear += cards.size() == 1 ? 1 : 0;
  }
  EXPECT_GT(clear, static_cast<int>(Catalogue::BuiltIn().entries().size()) * 9 / 10);
}

}  // namespace
}  // namespace gpueta
