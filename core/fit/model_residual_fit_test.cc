#include "core/fit/model_residual_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// A model that spends its time in 3 x 3 convolutions and passes by this ratio, of
// a batch.
ModelFeatures Model(double convolutions, double batch = 1, DType dtype = DType::kFp32) {
  RunKernel conv{.kind = RunKernel::Kind::kConv3x3, .dtype = dtype, .flops = 1e9 * convolutions * batch};
  RunKernel pass{.kind = RunKernel::Kind::kPass, .dtype = dtype, .bytes = 5e7 * (1 - convolutions) * batch};
  return FeaturesOf(std::vector<CountedKernel>{{conv, 3}, {pass, 3}});
}

TEST(FeaturesOfTest, AreTheSameInEveryBatchAndTellTypesApart) {
  const ModelFeatures one = Model(0.3), many = Model(0.3, 64);
  for (std::size_t i = 0; i < kModelFeatures; ++i) EXPECT_FLOAT_EQ(one[i], many[i]);
  EXPECT_NE(Model(0.3, 1, DType::kFp16), one);
  EXPECT_NE(Model(0.4), one);
  EXPECT_EQ(FeaturesOf({}), ModelFeatures{});
}

// Twelve models, each off by an amount of its own on all of three devices.
struct Planted {
  std::vector<ModelFeatures> models;
  std::vector<double> own;
  ModelResidual fitted;
};

Planted Plant(double deviation, double noise) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  Planted out;
  for (int m = 0; m < 12; ++m) {
    out.models.push_back(Model(0.04 + 0.08 * m));
    out.own.push_back(deviation * normal(random));
  }
  std::vector<ModelFeatures> timed;
  std::vector<double> errors;
  for (int device = 0; device < 3; ++device) {
    for (std::size_t m = 0; m < out.models.size(); ++m) {
      timed.push_back(out.models[m]);
      errors.push_back(out.own[m] + noise * normal(random));
    }
  }
  out.fitted =
      FitModelResidual(timed, Eigen::Map<Eigen::VectorXd>(errors.data(), static_cast<Eigen::Index>(errors.size())));
  return out;
}

TEST(FitModelResidualTest, WhatAModelDeviatesOnSomeDevicesItDeviatesOnTheNext) {
  const Planted planted = Plant(0.2, 0.04);
  EXPECT_EQ(planted.fitted.weights.size(), planted.models.size());  // one point a model
  const WholeModel learnt{.models = planted.fitted};
  double before = 0, after = 0;
  for (std::size_t m = 0; m < planted.models.size(); ++m) {
    before += std::pow(planted.own[m], 2);
    const ModelDeviation deviation = DeviationOf(learnt, planted.models[m]);
    after += std::pow(planted.own[m] - deviation.ln, 2);
    EXPECT_LT(std::sqrt(deviation.variance), 0.15);
  }
  EXPECT_LT(after, 0.1 * before);
}

TEST(FitModelResidualTest, NothingIsLearntFromNoise) {
  const Planted planted = Plant(0, 0.1);
  const WholeModel learnt{.models = planted.fitted};
  for (const ModelFeatures& model : planted.models) EXPECT_LT(std::abs(DeviationOf(learnt, model).ln), 0.07);
}

TEST(FitModelResidualTest, AnUnlikeModelIsAsUnsureAsAnyWas) {
  const Planted planted = Plant(0.2, 0.04);
  const WholeModel learnt{.models = planted.fitted};
  RunKernel product{.kind = RunKernel::Kind::kProduct, .dtype = DType::kFp16, .flops = 1e9};
  const ModelDeviation deviation = DeviationOf(learnt, FeaturesOf(std::vector<CountedKernel>{{product, 1}}));
  EXPECT_LT(std::abs(deviation.ln), 0.1);
  EXPECT_GT(std::sqrt(deviation.variance), 0.15);
}

TEST(ModelResidualTest, WithoutModelsTheFormsOwnNoiseIsLeft) {
  const ModelDeviation deviation = DeviationOf(WholeModel{.noise_ln = 0.2}, Model(0.5));
  EXPECT_EQ(deviation.ln, 0);
  EXPECT_NEAR(deviation.variance, 0.04, 1e-12);
}

TEST(ModelResidualTest, RefusesWhatCannotBeAProcess) {
  ModelResidual process = Plant(0.2, 0.04).fitted;
  EXPECT_TRUE(CheckStructure(process).ok());
  process.points.pop_back();
  EXPECT_EQ(FieldOf(CheckStructure(process)), "points");
  process = Plant(0.2, 0.04).fitted;
  process.weights[0] = NAN;
  EXPECT_EQ(FieldOf(CheckStructure(process)), "weights");
  process = Plant(0.2, 0.04).fitted;
  process.alike_length = 0;
  EXPECT_EQ(FieldOf(CheckStructure(process)), "alike_length");
}

}  // namespace
}  // namespace gpueta
