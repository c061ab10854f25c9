#include "client/report/chart.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gpueta::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Plain(double value) { return fmt::format("[{:.4g}]", value); }

TEST(DecadesTest, AreWholeAndHoldAllPositiveValues) {
  const std::vector<double> values = {0, -3, 0.02, 700};
  const Axis axis = Decades("x", values, Plain);
  EXPECT_NEAR(axis.low, 0.01, 1e-12);
  EXPECT_NEAR(axis.high, 1000, 1e-9);
  const Axis one = Decades("x", std::vector<double>{10}, Plain);
  EXPECT_NEAR(one.high / one.low, 10, 1e-9);  // never empty
  const Axis none = Decades("x", {}, Plain);
  EXPECT_LT(none.low, none.high);
}

TEST(ChartTest, TicksStandAtDecadesAndAtRoundSteps) {
  const std::string svg =
      Chart("c", Decades("x", std::vector<double>{1, 1000}, Plain), {"y", 0, 0.4, false, Plain}).Render();
  for (const char* tick : {"[1]", "[10]", "[100]", "[1000]", "[0]", "[0.05]", "[0.4]"}) {
    EXPECT_THAT(svg, HasSubstr(tick));
  }
  EXPECT_THAT(svg, Not(HasSubstr("[0.45]")));
}

TEST(ChartTest, PointsStandWhereTheirValuesAre) {
  const auto circle = [](Point point) {
    Chart chart("c", {"x", 0, 1, false, Plain}, {"y", 0, 1, false, Plain});
    chart.Dot(point, 0, "<here>");
    const std::string svg = chart.Render();
    EXPECT_THAT(svg, HasSubstr("&lt;here&gt;"));
    return svg.substr(svg.find("cx="), svg.find(" r=") - svg.find("cx="));
  };
  EXPECT_EQ(circle({0, 0}), "cx=\"70.0\" cy=\"372.0\"");
  EXPECT_EQ(circle({1, 1}), "cx=\"612.0\" cy=\"28.0\"");
  EXPECT_EQ(circle({0.5, 0.5}), "cx=\"341.0\" cy=\"200.0\"");
  EXPECT_EQ(circle({-7, 9}), "cx=\"70.0\" cy=\"28.0\"");  // at the edge
}

}  // namespace
}  // namespace gpueta::report
