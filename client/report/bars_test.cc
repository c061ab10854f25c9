#include "client/report/bars.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/report/testing_xml.h"

namespace gpueta::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Plain(double value) { return fmt::format("[{:.4g}]", value); }

std::size_t CountOf(const std::string& text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Widths of the rectangles, in order.
std::vector<double> WidthsIn(const std::string& svg) {
  std::vector<double> widths;
  for (std::size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1)) {
    widths.push_back(std::stod(svg.substr(svg.find("width=\"", at) + 7)));
  }
  return widths;
}

TEST(BarsTest, LengthsAreAsTheValues) {
  const std::string svg =
      Bars("b", {{.label = "a<", .value = 3, .text = "3"}, {.label = "b", .value = 1, .whisker = 2}});
  EXPECT_EQ(WhatIsMalformed(svg), "");
  EXPECT_THAT(svg, HasSubstr("a&lt;"));
  const std::vector<double> widths = WidthsIn(svg);
  ASSERT_EQ(widths.size(), 2U);
  EXPECT_NEAR(widths[0] / widths[1], 3, 0.01);
}

TEST(BarsTest, NoBarsAndBarsOfNothingAreDrawnToo) {
  EXPECT_EQ(WhatIsMalformed(Bars("b", {})), "");
  EXPECT_THAT(Bars("b", {{.label = "a"}}), Not(HasSubstr("nan")));
}

TEST(LanesTest, BlocksStandAtTheirTimesAndNeighboursTooShortToSeeAreOne) {
  Lane lane{.label = "stream", .blocks = {{0, 50, 0, "long"}}};
  for (int i = 0; i < 1000; ++i) lane.blocks.push_back({50 + 0.01 * i, 0.01, 1, fmt::format("short {}", i)});
  lane.blocks.push_back({60, 40, 1, "last"});
  const std::string svg = Lanes("t", {lane}, 100, Plain);
  EXPECT_EQ(WhatIsMalformed(svg), "");
  EXPECT_LT(CountOf(svg, "<rect"), 200U);
  EXPECT_THAT(svg, HasSubstr("kernels, the first: short 0"));
  const std::vector<double> widths = WidthsIn(svg);
  EXPECT_NEAR(widths.front() / 0.9, 500, 2);  // half of the 900 units of the axis
  double all = 0;
  for (const double width : widths) all += width;
  EXPECT_NEAR(all / 900, 1, 0.1);
}

TEST(LanesTest, BlocksOfOtherColoursAreNotMerged) {
  Lane lane{.label = "s", .blocks = {}};
  for (int i = 0; i < 4; ++i) lane.blocks.push_back({0.01 * i, 0.01, i % 2, "x"});
  EXPECT_EQ(CountOf(Lanes("t", {lane}, 100, Plain), "<rect"), 4U);
}

}  // namespace
}  // namespace gpueta::report
