#include "server/metrics/feedback_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace gpueta {
namespace {

using testing::HasSubstr;

std::string Text(const FeedbackSample& sample) {
  return prometheus::TextSerializer().Serialize(MakeFeedbackMetrics([&] { return sample; })->Collect());
}

WatchSample Watch(const std::string& device, Family family, int count = 1) {
  WatchSample watch{.device = device, .family = family};
  for (int i = 0; i < count; ++i) watch.observed.Add({{90, 99, 120}, 90, 100});
  return watch;
}

std::int64_t SeriesIn(const std::string& text) {
  std::int64_t series = 0;
  for (std::size_t start = 0; start < text.size(); start = text.find('\n', start) + 1) series += text[start] != '#';
  return series;
}

TEST(FeedbackMetricsTest, ShowErrorsCoverageAndState) {
  WatchSample watch = Watch("t4", Family::kGemm, 4);
  watch.drift = DriftDetector::State::kSlower;
  watch.correction = {.factor = {1.5F, 1.25F, 1}};
  watch.nodes = 3;
  watch.nodes_in_alarm = 1;
  watch.recent.Add({{90, 99, 120}, 100});
  FeedbackSample sample{.watches = {watch}, .tasks_created = 2};
  sample.open_tasks.push_back({.reason = TaskReason::kDrift});
  sample.models.push_back({"t4", "bert", 0.125});
  sample.outcomes = {{"accepted", 4}, {"forged", 1}};
  const std::string text = Text(sample);
  EXPECT_THAT(text, HasSubstr("# TYPE gpueta_prediction_error_ratio histogram"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_prediction_error_ratio_count{device="t4",op="gemm"} 4)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_prediction_error_ratio_bucket{device="t4",op="gemm",le="0.83"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_prediction_error_ratio_bucket{device="t4",op="gemm",le="0.91"} 4)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_prediction_error_ratio_bucket{device="t4",op="gemm",le="+Inf"} 4)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_prediction_below_p90_total{device="t4",op="gemm"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_prediction_below_p99_total{device="t4",op="gemm"} 4)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_drift_state{device="t4",op="gemm"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_correction_factor_ratio{device="t4",op="gemm",size="medium"} 1.25)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_drifted_nodes{device="t4",op="gemm"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_prediction_observed_total{device="t4",size="medium"} 4)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_observations_total{outcome="forged"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_observations_total{outcome="late"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_calibration_tasks_open{reason="drift"} 1)"));
  EXPECT_THAT(text, HasSubstr("gpueta_calibration_tasks_created_total 2"));
  EXPECT_THAT(text, HasSubstr(R"(gpueta_model_prediction_mape_ratio{device="t4",model="bert"} 0.125)"));
}

TEST(FeedbackMetricsTest, AreABoundedNumberOfSeriesThatStillCountEverything) {
  FeedbackSample sample;
  for (int device = 0; device < 300; ++device) {
    for (std::size_t family = 0; family < kFamilies; ++family)
      sample.watches.push_back(Watch("d" + std::to_string(device), static_cast<Family>(family), 1 + device % 7));
    sample.models.push_back({"d" + std::to_string(device), "m", 0.1});
  }
  std::int64_t observed = 0;
  for (const WatchSample& watch : sample.watches) observed += watch.observed.count();
  const std::string text = Text(sample);
  EXPECT_LE(SeriesIn(text), 4'000);
  EXPECT_THAT(text, HasSubstr(R"(device="other",op="gemm")"));
  double counted = 0;
  for (const auto& family : MakeFeedbackMetrics([&] { return sample; })->Collect()) {
    if (family.name != "gpueta_prediction_error_ratio") continue;
    EXPECT_LE(family.metric.size(), kMostWatches);
    for (const auto& metric : family.metric) counted += static_cast<double>(metric.histogram.sample_count);
  }
  EXPECT_EQ(counted, observed);
}

}  // namespace
}  // namespace gpueta
