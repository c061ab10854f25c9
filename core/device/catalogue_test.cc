#include "core/device/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/device/gpu_specs_csv.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(Catalogue, HoldsEveryRowOfTheFile) {
  const Catalogue& catalogue = Catalogue::BuiltIn();
  EXPECT_EQ(catalogue.entries().size(), 338);
  for (const CatalogueEntry& entry : catalogue.entries()) {
    EXPECT_EQ(catalogue.Find(entry.spec.slug), &entry);
    EXPECT_FALSE(entry.spec.name.empty() || entry.spec.architecture.empty() || entry.spec.segment.empty());
  }
}

TEST(Catalogue, ReadsACardAsItsDataSheetSays) {
  const DeviceSpec spec = Catalogue::BuiltIn().Get("h100-sxm").value();
  const DeviceSpec expected{
      .slug = "h100-sxm",
      .name = "H100 SXM5 80 GB",
      .architecture = "Hopper",
      .segment = "datacenter",
      .compute_capability = 9.0,
      .sm_count = 132,
      .base_clock_mhz = 1590,
      .boost_clock_mhz = 1980,
      .memory_type = "HBM3",
      .mem_bandwidth_gb_s = 3350,
      .memory_gb = 80,
      .l2_mb = 50,
      .fp32_tflops = 66.91,
      .tf32_tensor_tflops = 494.7,
      .fp16_vector_tflops = 133.82,
      .fp16_tensor_tflops = 989.4,
      .bf16_tensor_tflops = 989.4,
      .fp8_tensor_tflops = 1978.9,
      .int8_tensor_tops = 1978.9,
      .tdp_w = 700,
      .nvlink_gb_s = 900,
      .pcie_gb_s = 63,
  };
  EXPECT_EQ(spec, expected);
}

TEST(Catalogue, FindsCardsByAlias) {
  const Catalogue& catalogue = Catalogue::BuiltIn();
  EXPECT_EQ(catalogue.CanonicalSlug("a100-80gb"), "a100-sxm4-80gb");
  EXPECT_EQ(catalogue.CanonicalSlug("a100-sxm4-80gb"), "a100-sxm4-80gb");
  EXPECT_EQ(catalogue.CanonicalSlug("unheard-of"), "unheard-of");
  EXPECT_EQ(catalogue.Find("a100-80gb"), catalogue.Find("a100-sxm4-80gb"));
  EXPECT_THAT(catalogue.Find("h100-sxm")->aliases, ElementsAre("h100-pairwise-nvlink"));
  EXPECT_EQ(catalogue.Find(""), nullptr);
}

TEST(Catalogue, SuggestsSimilarSlugs) {
  const std::pair<const char*, const char*> cases[] = {
      {"h100-sxn", "h100-sxm"},
      {"rtx4090", "rtx-4090"},
      {"a100", "a100-80gb, a100-pcie-40gb, a100-pcie-80gb?"},
      {"L40T", "did you mean l40"},
      {"", "\"gpueta devices\""},
      {"a-card-that-nobody-has-ever-made", "\"gpueta devices\""},
  };
  for (const auto& [wanted, hint] : cases) {
    const auto spec = Catalogue::BuiltIn().Get(wanted);
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(hint));
  }
}

// The catalogue's header and its first two rows, with one text replaced.
std::string SmallFile(std::string_view from = "", std::string_view to = "") {
  std::size_t end = 0;
  for (int line = 0; line < 3; ++line) end = kGpuSpecsCsv.find('\n', end) + 1;
  std::string csv(kGpuSpecsCsv.substr(0, end));
  if (!from.empty()) {
    const std::size_t at = csv.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    csv.replace(at, from.size(), to);
  }
  return csv;
}

TEST(Catalogue, ParsesItsOwnFormat) {
  const auto catalogue = Catalogue::Parse(SmallFile());
  ASSERT_TRUE(catalogue.ok()) << catalogue.status();
  EXPECT_EQ(catalogue->entries().size(), 2);
}

TEST(Catalogue, NamesLineAndColumnOfBadCells) {
  struct Case {
    std::string from, to, error;
  };
  const Case cases[] = {
      {"slug,", "slog,", "gpu_specs.csv:1: unknown column \"slog\""},
      {"slug,name,", "name,", "gpu_specs.csv:1:slug: the column is missing"},
      {",note", ",note,note", "gpu_specs.csv:1:note: the column is given twice"},
      {"694.3", "", "gpu_specs.csv:2:mem_bandwidth_gb_s: is empty"},
      {"694.3", "nan", "gpu_specs.csv:2:mem_bandwidth_gb_s: \"nan\" is not finite"},
      {"694.3", "-694.3", "gpu_specs.csv:2:mem_bandwidth_gb_s: must be above 0"},
      {",30,3840", ",30.5,3840", "gpu_specs.csv:2:sm_count: \"30.5\" is not a whole number"},
      {",30,3840", ",0,3840", "gpu_specs.csv:2:sm_count: must be above 0"},
      {"p10,", "P 10,", "gpu_specs.csv:2:slug: \"P 10\": use lower-case"},
      {"p10,", "p100-dgxs,", "gpu_specs.csv:3:slug: \"p100-dgxs\" is the slug or alias of an earlier row"},
      {"Tesla P10,,", "Tesla P10,p10,", "gpu_specs.csv:2:slug: \"p10\" is the slug or alias of an earlier row"},
      {"Tesla P10,,", "Tesla P10,A B,", "gpu_specs.csv:2:aliases: \"A\" is not a slug"},
      {"Tesla P10,,", "Tesla P10,", "gpu_specs.csv:2: has 33 cells, the header has 34"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(ErrorOf(Catalogue::Parse(SmallFile(c.from, c.to)).status()), HasSubstr(c.error));
  }
  EXPECT_THAT(ErrorOf(Catalogue::Parse("").status()), HasSubstr("is empty"));
}

TEST(ParseSpecRow, RefusesWhatNoDeviceHas) {
  for (const char* row : {"mine,1e300,20,\n", "mine,900,2e6,\n", "mine,900,20,1000000\n"}) {
    const auto spec = ParseSpecRow(std::string("slug,mem_bandwidth_gb_s,fp32_tflops,sm_count\n") + row, "s.csv");
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << row;
    EXPECT_NE(MessageOf(spec.status()).find("s.csv:2"), std::string::npos) << MessageOf(spec.status());
  }
}

TEST(ParseSpecRow, TakesAnyColumnsBesidesTheRequired) {
  const auto spec = ParseSpecRow("fp32_tflops,slug,mem_bandwidth_gb_s,fp64_tflops,note\n20.5,mine,900,10,\"x, y\"\n");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(*spec, (DeviceSpec{.slug = "mine", .mem_bandwidth_gb_s = 900, .fp64_tflops = 10, .fp32_tflops = 20.5}));
}

TEST(ParseSpecRow, ReadsAFullRowOfTheCatalogue) {
  const std::string csv = SmallFile();
  const auto spec = ParseSpecRow(csv.substr(0, csv.find('\n', csv.find('\n') + 1) + 1));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(*spec, Catalogue::BuiltIn().Get("p10").value());
}

TEST(SpecRow, IsReadBackAsItWas) {
  for (const CatalogueEntry& entry : Catalogue::BuiltIn().entries()) {
    const auto row = SpecRow(entry.spec);
    ASSERT_TRUE(row.ok()) << row.status();
    const auto again = ParseSpecRow(*row);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << *row;
    EXPECT_EQ(*again, entry.spec) << *row;
  }
  EXPECT_FALSE(SpecRow({.slug = "mine", .name = "two\nlines"}).ok());
}

TEST(ParseSpecRow, NamesTheColumnOfAnError) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "row.csv: is empty"},
      {"slug,fp32_tflops\nx,1\n", "row.csv:1:mem_bandwidth_gb_s: the column is missing"},
      {"slug,fp32_tflops,mem_bandwidth_gb_s,ram\nx,1,1,1\n", "row.csv:1: unknown column \"ram\""},
      {"slug,fp32_tflops,mem_bandwidth_gb_s\n", "row.csv:1: a row must follow"},
      {"slug,fp32_tflops,mem_bandwidth_gb_s\nx,1,1\ny,1,1\n", "row.csv:3: is a second row"},
      {"slug,fp32_tflops,mem_bandwidth_gb_s\nx,1,\n", "row.csv:2:mem_bandwidth_gb_s: is empty"},
      {"slug,fp32_tflops,mem_bandwidth_gb_s\nx,inf,1\n", "row.csv:2:fp32_tflops: \"inf\" is not finite"},
      {"slug,fp32_tflops,mem_bandwidth_gb_s\n,1,1\n", "row.csv:2:slug: is empty"},
      {"slug,fp32_tflops,mem_bandwidth_gb_s\nx,1\n", "row.csv:2: has 2 cells"},
      {"slug,fp32_tflops,mem_bandwidth_gb_s\nx,1,1\ny\n", "row.csv:3: has 1 cells"},
  };
  for (const auto& [csv, error] : cases) {
    EXPECT_THAT(ErrorOf(ParseSpecRow(csv, "row.csv").status()), HasSubstr(error)) << csv;
  }
}

}  // namespace
}  // namespace gpueta
