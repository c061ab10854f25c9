#include "core/predict/compiled_residual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/predict/row_loops.h"

namespace gpueta {
namespace {

// The network as it stands in the profile, in double.
double Reference(const Residual& residual, const std::vector<float>& features, int variant) {
  std::vector<double> x;
  for (std::size_t i = 0; i < residual.feature_mean.size(); ++i) {
    const double value = i < features.size()                                ? features[i]
                         : static_cast<int>(i - features.size()) == variant ? 1.0
                                                                            : 0.0;
    x.push_back(std::clamp((value - residual.feature_mean[i]) * residual.feature_scale[i], -4.0, 4.0));
  }
  const float* next = residual.weights.data();
  std::vector<int> widths = residual.hidden;
  widths.push_back(1);
  for (std::size_t l = 0; l < widths.size(); ++l) {
    const auto outputs = static_cast<std::size_t>(widths[l]);
    std::vector<double> y(outputs);
    for (std::size_t o = 0; o < outputs; ++o) {
      double sum = next[outputs * x.size() + o];
      for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(next[o * x.size() + i]) * x[i];
      y[o] = l + 1 < widths.size() ? std::max(sum, 0.0) : sum;
    }
    next += outputs * (x.size() + 1);
    x = y;
  }
  return x[0] * math::kLog2E;
}

struct Case {
  std::string name;
  int features;
  std::vector<int> hidden;
  float largest_weight;
};
std::string NameOf(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

constexpr int kVariants = 2;

Residual RandomResidual(const Case& c, std::mt19937& random) {
  std::uniform_real_distribution<float> weight(-c.largest_weight, c.largest_weight);
  Residual residual;
  const auto inputs = static_cast<std::size_t>(c.features + kVariants);
  residual.hidden = c.hidden;
  residual.feature_mean.assign(inputs, 0.5F);
  residual.feature_scale.assign(inputs, 0.7F);
  residual.feature_scale[0] = 0;  // constant in training
  std::size_t count = 0;
  std::size_t width = inputs;
  for (const int hidden : c.hidden) {
    count += (width + 1) * static_cast<std::size_t>(hidden);
    width = static_cast<std::size_t>(hidden);
  }
  residual.weights.resize(count + width + 1);
  for (float& w : residual.weights) w = weight(random);
  return residual;
}

class IntegerNetwork : public ::testing::TestWithParam<Case> {
 protected:
  void Fill(Block& block) {
    std::uniform_real_distribution<float> feature(-8, 8);  // beyond the clamp
    for (int f = 0; f < GetParam().features; ++f) {
      for (float& value : block.features[f]) value = feature(random_);
    }
  }
  std::mt19937 random_{7};
};

TEST_P(IntegerNetwork, IsTheProfilesNetwork) {
  const Residual residual = RandomResidual(GetParam(), random_);
  const CompiledResidual compiled(residual, GetParam().features, 1);
  Block block;
  block.rows = kBlockRows;
  Fill(block);
  compiled.Evaluate(block);
  double largest = 0;
  double worst = 0;
  for (int r = 0; r < kBlockRows; ++r) {
    std::vector<float> features;
    for (int f = 0; f < GetParam().features; ++f) features.push_back(block.features[f][r]);
    const double expected = Reference(residual, features, 1);
    largest = std::max(largest, std::abs(expected));
    worst = std::max(worst, std::abs(block.residual_log2[r] - expected));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(worst, 2e-3 * largest);
}

// Every way a block can be full, and the row by itself.
TEST_P(IntegerNetwork, IsTheSameForOneRowAndForMany) {
  const CompiledResidual compiled(RandomResidual(GetParam(), random_), GetParam().features, 0);
  Block all;
  all.rows = kBlockRows;
  Fill(all);
  compiled.Evaluate(all);
  for (const int rows : {1, kLanes, kGroupRows, kGroupRows + kLanes}) {
    for (int start = 0; start + rows <= kBlockRows; start += rows) {
      Block some;
      some.rows = rows;
      for (int f = 0; f < GetParam().features; ++f) std::copy_n(&all.features[f][start], rows, some.features[f]);
      compiled.Evaluate(some);
      for (int r = 0; r < rows; ++r) ASSERT_EQ(some.residual_log2[r], all.residual_log2[start + r]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, IntegerNetwork,
                         ::testing::Values(Case{"AsFitted", 15, {32, 32}, 0.3F}, Case{"OddWidths", 6, {10, 7}, 0.3F},
                                           Case{"OneLayer", 3, {5}, 1.0F}, Case{"ThreeLayers", 14, {48, 32, 20}, 0.3F},
                                           Case{"Widest", 16, {256, 256}, 0.1F}, Case{"OnlyConstants", 1, {8}, 1.0F},
                                           Case{"HugeWeights", 15, {32, 32}, 1e12F},
                                           Case{"TinyWeights", 15, {32, 32}, 1e-12F}),
                         NameOf);

TEST(ScaleRowsTest, LatenciesStayNumbersWhateverTheNetworkSays) {
  const float us[] = {1, 1, 1, 1e30F, 0};
  const float log2[] = {INFINITY, -INFINITY, NAN, 100, 0};
  float out[5];
  ScaleRows(us, log2, 5, out);
  for (const float value : out) {
    EXPECT_GT(value, 0);
    EXPECT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace gpueta
