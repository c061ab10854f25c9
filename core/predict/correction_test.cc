#include "core/predict/correction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/predict/predictor.h"
#include "core/predict/snapshot.h"
#include "core/testing/test_profile.h"

namespace gpueta {
namespace {

const CorrectionCurve kSteep{.factor = {2, 0.5F, 2}};

TEST(CorrectionTest, FactorsAreTheNodesAtTheNodesAndBetweenThemInBetween) {
  const CorrectionCurve curve{.factor = {1.2F, 0.8F, 1.5F}};
  EXPECT_FLOAT_EQ(FactorAt(curve, 0.01), 1.2F);
  EXPECT_FLOAT_EQ(FactorAt(curve, 2), 1.2F);
  EXPECT_FLOAT_EQ(FactorAt(curve, 16), 1.0F);
  EXPECT_FLOAT_EQ(FactorAt(curve, 128), 0.8F);
  EXPECT_FLOAT_EQ(FactorAt(curve, 8192), 1.5F);
  EXPECT_FLOAT_EQ(FactorAt(curve, 1e9), 1.5F);
}

TEST(CorrectionTest, LongerWorkIsNeverCorrectedToLess) {
  for (const CorrectionCurve& curve : {kSteep, CorrectionCurve{.factor = {0.5F, 2, 0.5F}}}) {
    double last = 0;
    for (double us = 0.5; us < 1e5; us *= 1.0003) {
      const double corrected = us * FactorAt(curve, us);
      EXPECT_GE(corrected, last) << us;
      last = corrected;
    }
  }
}

TEST(CorrectionTest, CanBeUndone) {
  for (double us = 0.3; us < 1e5; us *= 1.37) {
    EXPECT_NEAR(WithoutCorrection(kSteep, us * FactorAt(kSteep, us)) / us, 1, 1e-5) << us;
  }
  EXPECT_NEAR(WithoutCorrection({}, 12.5), 12.5, 1e-5);
}

std::shared_ptr<const Predictor> MakePredictor() {
  LoadedProfile loaded;
  loaded.profile = testing::MakeTestProfile("h100-sxm");
  loaded.id = "test";
  return Snapshot::Build({{.loaded = loaded, .node = "", .version = 1}}).value()->Find("h100-sxm").value();
}

TEST(CorrectionTest, OneRowABatchAndColumnsAreCorrectedToTheBit) {
  const auto predictor = MakePredictor();
  Corrections corrections;
  corrections.kernels[static_cast<std::size_t>(Op::kGemm)] = {.factor = {1.3F, 0.9F, 1.7F}};
  const EstimateOptions plain;
  EstimateOptions corrected;
  corrected.corrections = &corrections;

  constexpr std::size_t kRows = 300;
  std::vector<std::uint32_t> m, n, k;
  std::vector<Kernel> kernels;
  std::mt19937 random(3);
  for (std::size_t i = 0; i < kRows; ++i) {
    m.push_back(1U << random() % 15);
    n.push_back(64 + random() % 8000);
    k.push_back(64 + random() % 8000);
    kernels.push_back({.dtype = DType::kBf16, .work = Gemm{.m = m[i], .n = n[i], .k = k[i]}});
  }
  KernelColumns columns;
  columns.prototype = kernels[0];
  columns.rows = kRows;
  columns.dims[1] = m;
  columns.dims[2] = n;
  columns.dims[3] = k;
  std::vector<float> p50(kRows), p90(kRows), p99(kRows);
  ColumnsResult result{.p50_us = p50, .p90_us = p90, .p99_us = p99};
  ASSERT_TRUE(predictor->EstimateColumns(columns, corrected, result).ok());
  std::vector<Estimate> batch(kRows);
  ASSERT_TRUE(predictor->EstimateKernels(kernels, corrected, batch).ok());
  for (std::size_t i = 0; i < kRows; ++i) {
    const Estimate one = predictor->EstimateKernel(kernels[i], corrected).value();
    const Estimate without = predictor->EstimateKernel(kernels[i], plain).value();
    EXPECT_EQ(without.correction, 1);
    EXPECT_FLOAT_EQ(static_cast<float>(one.correction), FactorAt(corrections.Of(Op::kGemm), without.latency_us.p50));
    EXPECT_NEAR(one.latency_us.p90, without.latency_us.p90 * one.correction, 1e-6 * one.latency_us.p90);
    EXPECT_EQ(one.latency_us.p50, batch[i].latency_us.p50);
    EXPECT_EQ(one.correction, batch[i].correction);
    EXPECT_EQ(one.bound, batch[i].bound);
    EXPECT_EQ(static_cast<float>(one.latency_us.p50), p50[i]);
    EXPECT_EQ(static_cast<float>(one.latency_us.p90), p90[i]);
    EXPECT_EQ(static_cast<float>(one.latency_us.p99), p99[i]);
  }
}

TEST(CorrectionTest, KernelsOfOtherOpsAndTheRooflineAreCorrectedByTheirOwnFactor) {
  const auto predictor = MakePredictor();
  Corrections corrections;
  corrections.kernels[static_cast<std::size_t>(Op::kVector)] = {.factor = {1.5F, 1.5F, 1.5F}};
  EstimateOptions corrected;
  corrected.corrections = &corrections;
  const Kernel gemm{.dtype = DType::kBf16, .work = Gemm{.m = 512, .n = 512, .k = 512}};
  EXPECT_EQ(predictor->EstimateKernel(gemm, corrected)->correction, 1);
  const Kernel add{.dtype = DType::kBf16, .work = Vector{.op = "add", .rows = 512, .cols = 512, .operands = 2}};
  const double plain = predictor->EstimateKernel(add, {.estimator = "roofline"})->latency_us.p50;
  corrected.estimator = "roofline";
  EXPECT_FLOAT_EQ(static_cast<float>(predictor->EstimateKernel(add, corrected)->latency_us.p50),
                  static_cast<float>(plain * 1.5));
  corrected.estimator = "";
  const auto explained = predictor->Explain(add, corrected);
  ASSERT_TRUE(explained.ok());
  EXPECT_NE(
      std::find(explained->terms.begin(), explained->terms.end(), std::pair<std::string, double>{"correction", 1.5}),
      explained->terms.end());
}

TEST(CorrectionTest, AGraphHasTheFactorOfItsKernelsAndItsOwn) {
  const auto predictor = MakePredictor();
  Graph graph;
  GraphNode node;
  node.kernel = {.name = "fc", .dtype = DType::kBf16, .work = Gemm{.m = 4096, .n = 4096, .k = 4096}};
  graph.nodes = {node};
  EstimateOptions options;
  options.mode = ExecutionMode::kGraph;
  const double plain = predictor->EstimateGraph(graph, {}, options)->latency_us.p50;
  Corrections corrections;
  corrections.kernels[static_cast<std::size_t>(Op::kGemm)] = {.factor = {2, 2, 2}};
  corrections.graphs = {.factor = {1.1F, 1.1F, 1.1F}};
  options.corrections = &corrections;
  const auto corrected = predictor->EstimateGraph(graph, {}, options);
  ASSERT_TRUE(corrected.ok());
  EXPECT_NEAR(corrected->latency_us.p50 / plain, 2.2, 0.05);  // the gap is not corrected by the kernels' factor
  EXPECT_FLOAT_EQ(static_cast<float>(corrected->correction), 1.1F);
  EXPECT_EQ(corrected->parts[0].estimate.correction, 2);
}

}  // namespace
}  // namespace gpueta
