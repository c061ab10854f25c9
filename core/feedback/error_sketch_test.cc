#include "core/feedback/error_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace gpueta {
namespace {

std::vector<double> Sorted(const ErrorSketch& sketch) {
  std::vector<double> values;
  for (const ErrorSketch::Bin& bin : sketch.bins())
    values.insert(values.end(), bin.count, ErrorSketch::ValueOf(bin.index));
  return values;
}

TEST(ErrorSketchTest, EveryRankIsWithinTheStatedErrorOfTheTruth) {
  std::mt19937_64 random(1);
  std::student_t_distribution<double> heavy(2);
  std::vector<double> truth;
  ErrorSketch sketch;
  for (int i = 0; i < 20'000; ++i) {
    const double x = std::clamp(0.05 + 0.1 * heavy(random), -7.0, 7.0);
    truth.push_back(x);
    sketch.Add(x);
  }
  std::sort(truth.begin(), truth.end());
  const std::vector<double> stands = Sorted(sketch);
  ASSERT_EQ(stands.size(), truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (std::abs(truth[i]) < ErrorSketch::kSmallest) {
      EXPECT_EQ(stands[i], 0);
    } else {
      EXPECT_NEAR(stands[i] / truth[i], 1, ErrorSketch::kRelativeError + 1e-9) << truth[i];
    }
  }
}

TEST(ErrorSketchTest, HasBoundedBinsWhateverIsAdded) {
  ErrorSketch sketch;
  for (double x = 1e-12; x < 1e12; x *= 1.001) {
    sketch.Add(x);
    sketch.Add(-x);
  }
  for (const double x : {0.0, std::nan(""), HUGE_VAL, -HUGE_VAL}) sketch.Add(x);
  EXPECT_LE(sketch.bins().size(), 299U);
  EXPECT_NEAR(ErrorSketch::ValueOf(sketch.bins().back().index), ErrorSketch::kLargest, 0.06 * ErrorSketch::kLargest);
}

TEST(ErrorSketchTest, MergedSketchesAreTheSketchOfAll) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> error(0, 0.3);
  ErrorSketch all, first, second;
  for (int i = 0; i < 3000; ++i) {
    const double x = error(random);
    all.Add(x);
    (i % 3 == 0 ? first : second).Add(x);
  }
  first.Merge(second);
  EXPECT_EQ(first.count(), all.count());
  EXPECT_TRUE(std::equal(first.bins().begin(), first.bins().end(), all.bins().begin(), all.bins().end()));
}

TEST(ErrorSketchTest, ComesBackFromItsBinsAndRefusesOthers) {
  ErrorSketch sketch;
  for (const double x : {-0.5, 0.0, 0.1, 0.1, 3.0}) sketch.Add(x);
  const ErrorSketch back = ErrorSketch::FromBins(sketch.bins());
  EXPECT_EQ(back.count(), 5);
  EXPECT_TRUE(std::equal(back.bins().begin(), back.bins().end(), sketch.bins().begin(), sketch.bins().end()));
  const std::vector<ErrorSketch::Bin> bad = {{5, 1}, {3, 1}, {5, 1}, {30'000, 1}, {7, 0}};
  EXPECT_EQ(ErrorSketch::FromBins(bad).count(), 1);
}

}  // namespace
}  // namespace gpueta
