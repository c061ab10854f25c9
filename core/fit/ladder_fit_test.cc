#include "core/fit/ladder_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/predict/compiled_table.h"
#include "core/predict/predictor.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

Kernel Of(Work work, DType dtype = DType::kFp32) {
  return {.name = "", .dtype = dtype, .work = std::move(work), .launch = {}};
}

// Products of so many GFLOP with an activation between them.
Graph Layers(int gflops, DType dtype = DType::kFp32, bool training = false) {
  Graph graph;
  const auto add = [&](Kernel kernel) {
    GraphNode node{.kernel = std::move(kernel)};
    if (!graph.nodes.empty()) node.inputs = {static_cast<int>(graph.nodes.size()) - 1};
    graph.nodes.push_back(std::move(node));
  };
  for (int i = 0; i < gflops; ++i) {
    add(Of(Gemm{.m = 1000, .n = 1000, .k = 500}, dtype));
    add(Of(Vector{.op = training ? "clear_gradient" : "relu", .rows = 1000, .cols = 1000}, dtype));
  }
  return graph;
}

ModelTime TimeOf(const Graph& graph, double us) {
  std::vector<Kernel> kernels;
  for (const GraphNode& node : graph.nodes) kernels.push_back(node.kernel);
  return {.device = "t4", .run = "", .parts = PartsOf(kernels), .work = StepWorkOf(kernels), .latency_us = us};
}

Predictor PredictorOf(std::vector<EndToEnd> lines) {
  Profile profile;
  profile.device = "t4";
  profile.spec = Catalogue::BuiltIn().Get("t4").value();
  profile.end_to_end = std::move(lines);
  auto loaded = ParseProfile(SerializeProfile(profile));
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return {profile.spec, std::make_shared<const CompiledProfile>(*std::move(loaded)), nullptr};
}

const EstimateOptions kEndToEnd = {.estimator = "end-to-end"};

TEST(EndToEndTest, TimesThatAreALineInFlopsAreFoundAndAnsweredAgain) {
  std::vector<ModelTime> times;
  for (const int gflops : {1, 2, 4, 9}) times.push_back(TimeOf(Layers(gflops), 150 + 200 * gflops));
  const std::vector<EndToEnd> lines = FitEndToEnd(times);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NEAR(lines[0].slope, 200e-9, 1e-15);
  EXPECT_NEAR(lines[0].constant_us, 150, 1e-6);
  const Predictor predictor = PredictorOf(lines);
  const auto inside = predictor.EstimateGraph(Layers(5), {}, kEndToEnd);
  ASSERT_TRUE(inside.ok()) << inside.status();
  EXPECT_NEAR(inside->latency_us.p50, 1150, 1e-6);
  EXPECT_LT(inside->latency_us.p50, inside->latency_us.p90);
  EXPECT_EQ(inside->estimator, "end-to-end");
  EXPECT_EQ(inside->provenance.at(Provenance::kInterpolated), 1);
  EXPECT_NEAR(inside->time.start_us, 150, 1e-6);
  const auto outside = predictor.EstimateGraph(Layers(50), {}, kEndToEnd);
  ASSERT_TRUE(outside.ok()) << outside.status();
  EXPECT_EQ(outside->provenance.at(Provenance::kExtrapolated), 1);
}

TEST(EndToEndTest, StepsOfEachKindHaveALine) {
  const std::vector<EndToEnd> lines =
      FitEndToEnd(std::vector{TimeOf(Layers(1), 100), TimeOf(Layers(4), 400), TimeOf(Layers(1, DType::kFp16), 40),
                              TimeOf(Layers(4, DType::kFp16), 160), TimeOf(Layers(2, DType::kFp32, true), 500)});
  const Predictor predictor = PredictorOf(lines);
  const auto us = [&](const Graph& graph) { return predictor.EstimateGraph(graph, {}, kEndToEnd)->latency_us.p50; };
  EXPECT_NEAR(us(Layers(3)), 300, 1e-6);
  EXPECT_NEAR(us(Layers(3, DType::kFp16)), 120, 1e-6);
  // Of one time the line goes through the origin.
  EXPECT_NEAR(us(Layers(4, DType::kFp32, true)), 1000, 1e-6);
  const auto missing = predictor.EstimateGraph(Layers(1, DType::kBf16), {}, kEndToEnd);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(missing.status()),
              HasSubstr("no end-to-end form of bf16 inference for t4; its times of whole models are of fp32 inference, "
                        "fp32 training, fp16 inference"));
}

TEST(EndToEndTest, TimeNeverFallsWithWorkAndStartsAtZeroOrAbove) {
  for (const double last_us : {20.0, 5000.0}) {
    const std::vector<EndToEnd> lines =
        FitEndToEnd(std::vector{TimeOf(Layers(1), 100), TimeOf(Layers(2), 300), TimeOf(Layers(3), last_us)});
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_GE(lines[0].slope, 0);
    EXPECT_GE(lines[0].constant_us, 0);
    EXPECT_GT(lines[0].slope + lines[0].constant_us, 0);
  }
}

TEST(EndToEndTest, WhatItCannotAnswerIsSaid) {
  const Predictor predictor = PredictorOf(FitEndToEnd(std::vector{TimeOf(Layers(1), 100), TimeOf(Layers(2), 300)}));
  const auto error = [](const auto& answer) {
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition);
    return MessageOf(answer.status());
  };
  EXPECT_THAT(error(predictor.EstimateKernel(Layers(1).nodes[0].kernel, kEndToEnd)), HasSubstr("whole graphs"));
  Graph several = Layers(1);
  several.nodes.push_back({.kernel = Of(Collective{.op = "all_reduce", .backend = "nccl", .bytes = 64, .ranks = 2})});
  EXPECT_THAT(error(predictor.EstimateGraph(several, {}, kEndToEnd)), HasSubstr("one device"));
  Graph passes;
  passes.nodes.push_back({.kernel = Of(Vector{.op = "relu", .rows = 8, .cols = 8})});
  EXPECT_THAT(error(predictor.EstimateGraph(passes, {}, kEndToEnd)), HasSubstr("FLOPs"));
  EXPECT_THAT(error(PredictorOf({}).EstimateGraph(Layers(1), {}, kEndToEnd)), HasSubstr("--model-measurements"));
}

}  // namespace
}  // namespace gpueta
