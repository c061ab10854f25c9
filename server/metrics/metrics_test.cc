#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace gpueta {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string Text(const prometheus::Collectable& collectable) {
  return prometheus::TextSerializer().Serialize(collectable.Collect());
}

TEST(MetricsTest, ServesTheMethodsOfTheContract) {
  std::vector<std::string> methods;
  for (const RpcMethod& m : ServedMethods()) methods.push_back(m.service + "/" + m.method + " " + m.type);
  EXPECT_THAT(methods, Contains("gpueta.v1.PredictionService/Predict unary"));
  EXPECT_THAT(methods, Contains("gpueta.v1.PredictionService/StreamPredict bidi_stream"));
  EXPECT_THAT(methods, Contains("gpueta.v1.ProfileService/PublishProfile client_stream"));
  EXPECT_THAT(methods, Contains("gpueta.v1.ProfileService/WatchProfiles server_stream"));
}

TEST(MetricsTest, CountsCallsByMethodAndCode) {
  Metrics metrics({{"s.S", "M", "unary"}});
  metrics.CallStarted("/s.S/M");
  metrics.CallStarted("/s.S/M");
  metrics.CallHandled("/s.S/M", 0, 0.0003);
  metrics.CallHandled("/s.S/M", 3, 2);
  metrics.CallStarted("/unknown/M");  // not counted: callers choose the name
  metrics.CallHandled("/unknown/M", 0, 1);
  const std::string text = Text(*metrics.registry());
  EXPECT_THAT(text, HasSubstr(R"(grpc_server_started_total{grpc_method="M",grpc_service="s.S",grpc_type="unary"} 2)"));
  EXPECT_THAT(
      text,
      HasSubstr(R"(grpc_server_handled_total{grpc_code="OK",grpc_method="M",grpc_service="s.S",grpc_type="unary"} 1)"));
  EXPECT_THAT(text,
              HasSubstr(R"(grpc_code="InvalidArgument",grpc_method="M",grpc_service="s.S",grpc_type="unary"} 1)"));
  EXPECT_THAT(
      text, HasSubstr(R"(grpc_server_handling_seconds_count{grpc_method="M",grpc_service="s.S",grpc_type="unary"} 2)"));
  EXPECT_THAT(text, Not(HasSubstr("unknown/M")));
}

TEST(MetricsTest, AddsUpPredictions) {
  Metrics metrics({});
  PredictionCounts counts;
  counts.Add(Op::kGemm, Provenance::kInterpolated, 1000);
  counts.Add(Op::kConv2d, Provenance::kRoofline);
  metrics.Count(counts);
  metrics.Count(counts);
  const std::string text = Text(*metrics.registry());
  EXPECT_THAT(text, HasSubstr(R"(gpueta_predictions_total{op="gemm",provenance="interpolated"} 2000)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_predictions_total{op="conv2d",provenance="roofline"} 2)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_predictions_total{op="moe",provenance="measured"} 0)"));
}

TEST(MetricsTest, TellsBuildAndStart) {
  const std::string text = Text(*Metrics({}).registry());
  EXPECT_THAT(text, HasSubstr(R"(gpueta_build_info{version=")"));
  EXPECT_THAT(text, HasSubstr("process_start_time_seconds "));
}

TEST(StateMetricsTest, ShowsTheAgeOfTheProfileThatAnswers) {
  StateSample sample{.profiles = {{"h100-sxm", "aa", 3, 1000}, {"h100-sxm", "bb", 0, 10}, {"t4", "cc", 1, 900}},
                     .models = 5,
                     .snapshot_swaps = 7};
  const auto metrics =
      MakeStateMetrics([&] { return sample; }, [] { return std::chrono::system_clock::from_time_t(1060); });
  const std::string text = Text(*metrics);
  EXPECT_THAT(text, HasSubstr(R"(gpueta_profile_age_seconds{device="h100-sxm"} 60)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_profile_age_seconds{device="t4"} 160)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_profile_info{device="h100-sxm",id="bb",version="0"} 1)"));
  EXPECT_THAT(text, HasSubstr("gpueta_models 5"));
  EXPECT_THAT(text, HasSubstr("# TYPE gpueta_snapshot_swaps_total counter\ngpueta_snapshot_swaps_total 7"));
}

TEST(GrpcCodeNameTest, UsesTheNamesOfTheEcosystem) {
  EXPECT_EQ(GrpcCodeName(0), "OK");
  EXPECT_EQ(GrpcCodeName(1), "Canceled");
  EXPECT_EQ(GrpcCodeName(16), "Unauthenticated");
  EXPECT_EQ(GrpcCodeName(99), "Unknown");
}

}  // namespace
}  // namespace gpueta
