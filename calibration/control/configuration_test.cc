#include "calibration/control/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpueta {
namespace {

ControlSpace TwoCores() {
  ControlSpace space;
  space.range(Knob::kUnits) = KnobRange{.least = 1, .most = 2, .step = 1};
  space.range(Knob::kContention) = KnobRange{.least = 0, .most = 1, .step = 0.05};
  return space;
}

Configuration Of(double units, double contention) {
  Configuration configuration{};
  At(configuration, Knob::kUnits) = units;
  At(configuration, Knob::kContention) = contention;
  return configuration;
}

TEST(ConfigurationTest, UnrestrictedIsAllUnitsAndNoContention) {
  EXPECT_EQ(Unrestricted(TwoCores()), Of(2, 0));
  for (const double turned : TurnedDown(TwoCores(), Unrestricted(TwoCores()))) EXPECT_EQ(turned, 0);
}

TEST(ConfigurationTest, ContentionNeedsUnitsToContendFrom) {
  EXPECT_TRUE(IsPossible(TwoCores(), Of(2, 0)));
  EXPECT_TRUE(IsPossible(TwoCores(), Of(1, 0.35)));
  EXPECT_FALSE(IsPossible(TwoCores(), Of(2, 0.35)));
}

TEST(ConfigurationTest, OnlyValuesOfTheRangeArePossible) {
  for (const Configuration& impossible : {Of(0, 0), Of(3, 0), Of(1.5, 0), Of(1, -0.05), Of(1, 1.05), Of(1, 0.33)}) {
    EXPECT_FALSE(IsPossible(TwoCores(), impossible)) << Describe(TwoCores(), impossible);
  }
  for (const double contention : ValuesOf(*TwoCores().range(Knob::kContention))) {
    EXPECT_TRUE(IsPossible(TwoCores(), Of(1, contention))) << contention;
  }
  EXPECT_EQ(ValuesOf(*TwoCores().range(Knob::kContention)).size(), 21U);
}

// SMs of a GPU come in groups that need not divide their number.
TEST(ConfigurationTest, TheMostIsPossibleOffTheSteps) {
  ControlSpace space;
  space.range(Knob::kUnits) = KnobRange{.least = 8, .most = 28, .step = 8};
  EXPECT_THAT(ValuesOf(*space.range(Knob::kUnits)), ::testing::ElementsAre(8, 16, 24, 28));
  EXPECT_TRUE(IsPossible(space, Unrestricted(space)));
  EXPECT_TRUE(IsPossible(space, Of(24, 0)));
  EXPECT_FALSE(IsPossible(space, Of(20, 0)));
  EXPECT_FALSE(IsPossible(space, Of(32, 0)));
}

// Memory clocks of a card are few, and not evenly spaced.
TEST(ConfigurationTest, ListedValuesAreTheOnlyOnes) {
  ControlSpace space;
  space.range(Knob::kMemoryClock) = KnobRange{.least = 405, .most = 10501, .listed = {405, 5001, 10251, 10501}};
  EXPECT_THAT(ValuesOf(*space.range(Knob::kMemoryClock)), ::testing::ElementsAre(405, 5001, 10251, 10501));
  EXPECT_TRUE(IsPossible(space, Unrestricted(space)));
  Configuration configuration{};
  for (const auto& [mhz, possible] : {std::pair{5001.0, true}, {406.0, false}, {5000.0, false}, {10251.0, true}}) {
    At(configuration, Knob::kMemoryClock) = mhz;
    EXPECT_EQ(IsPossible(space, configuration), possible) << mhz;
  }
}

TEST(ConfigurationTest, SaysWhatIsRestricted) {
  EXPECT_EQ(Describe(TwoCores(), Of(1, 0.35)), "units 1 of 2, contention 0.35");
}

}  // namespace
}  // namespace gpueta
