#include "server/metrics/feedback_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace gpueta {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr const char* kSizeNames[kSizeClasses] = {"short", "medium", "long"};
constexpr const char* kOutcomes[] = {"accepted", "invalid", "forged", "unknown", "late", "duplicate", "absurd"};

MetricFamily NewFamily(const char* name, const char* help, MetricType type) { return {name, help, type, {}}; }

void AddGauge(MetricFamily& family, Labels labels, double value) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.gauge.value = value;
}

void AddCounter(MetricFamily& family, Labels labels, double value) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.counter.value = value;
}

void AddRatios(MetricFamily& family, Labels labels, const ObservedCounts& observed) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.histogram.sample_count = static_cast<std::uint64_t>(observed.count());
  metric.histogram.sample_sum = observed.ratio_sum;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < observed.ratios.size(); ++i) {
    below += static_cast<std::uint64_t>(observed.ratios[i]);
    const bool last = i == std::size(kRatioBuckets);
    metric.histogram.bucket.push_back({below, last ? std::numeric_limits<double>::infinity() : kRatioBuckets[i]});
  }
}

double DriftValue(DriftDetector::State state) {
  return state == DriftDetector::State::kSlower ? 1 : state == DriftDetector::State::kFaster ? -1 : 0;
}

// The most observed ones, and what is left of each op as device `other`.
std::vector<WatchSample> Bounded(std::vector<WatchSample> watches) {
  if (watches.size() <= kMostWatches) return watches;
  std::stable_sort(watches.begin(), watches.end(),
                   [](const WatchSample& a, const WatchSample& b) { return a.observed.count() > b.observed.count(); });
  const auto kept = static_cast<std::ptrdiff_t>(kMostWatches - kFamilies);
  std::map<Family, WatchSample> others;
  for (auto it = watches.begin() + kept; it != watches.end(); ++it) {
    WatchSample& other = others[it->family];
    other.device = kOther;
    other.family = it->family;
    other.observed.Merge(it->observed);
    other.nodes += it->nodes;
    other.nodes_in_alarm += it->nodes_in_alarm;
  }
  watches.erase(watches.begin() + kept, watches.end());
  for (auto& [family, other] : others) watches.push_back(std::move(other));
  return watches;
}

class FeedbackMetrics : public prometheus::Collectable {
 public:
  explicit FeedbackMetrics(std::function<FeedbackSample()> sample) : sample_(std::move(sample)) {}

  std::vector<MetricFamily> Collect() const override {
    FeedbackSample sample = sample_();
    std::vector<MetricFamily> families;
    for (MetricFamily& family : OfWatches(Bounded(std::move(sample.watches)))) families.push_back(std::move(family));

    MetricFamily outcomes =
        NewFamily("gpueta_observations_total", "Observations by what became of them.", MetricType::Counter);
    for (const char* outcome : kOutcomes) {
      const auto it = sample.outcomes.find(outcome);
      AddCounter(outcomes, {{"outcome", outcome}}, it == sample.outcomes.end() ? 0 : static_cast<double>(it->second));
    }
    MetricFamily models = NewFamily("gpueta_model_prediction_mape_ratio",
                                    "Mean absolute error of the last hour over the observed latency, of the models "
                                    "observed most.",
                                    MetricType::Gauge);
    for (std::size_t i = 0; i < std::min(sample.models.size(), kMostModels); ++i)
      AddGauge(models, {{"device", sample.models[i].device}, {"model", sample.models[i].model}}, sample.models[i].mape);
    MetricFamily open =
        NewFamily("gpueta_calibration_tasks_open", "Wishes for measurements, by reason.", MetricType::Gauge);
    for (const auto& [reason, name] :
         {std::pair{TaskReason::kDrift, "drift"}, std::pair{TaskReason::kCorrectionAtBound, "correction_at_bound"}}) {
      const auto count = std::count_if(sample.open_tasks.begin(), sample.open_tasks.end(),
                                       [reason = reason](const CalibrationTask& t) { return t.reason == reason; });
      AddGauge(open, {{"reason", name}}, static_cast<double>(count));
    }
    MetricFamily created = NewFamily("gpueta_calibration_tasks_created_total",
                                     "Wishes for measurements made since the start.", MetricType::Counter);
    AddCounter(created, {}, static_cast<double>(sample.tasks_created));
    for (MetricFamily* family : {&outcomes, &models, &open, &created}) families.push_back(std::move(*family));
    return families;
  }

 private:
  static std::vector<MetricFamily> OfWatches(const std::vector<WatchSample>& watches) {
    MetricFamily ratio =
        NewFamily("gpueta_prediction_error_ratio", "Predicted p50 over observed latency.", MetricType::Histogram);
    MetricFamily p90 = NewFamily("gpueta_prediction_below_p90_total", "Observations at or below the predicted p90.",
                                 MetricType::Counter);
    MetricFamily p99 = NewFamily("gpueta_prediction_below_p99_total", "Observations at or below the predicted p99.",
                                 MetricType::Counter);
    MetricFamily mape = NewFamily("gpueta_prediction_recent_mape_ratio",
                                  "Mean absolute error over the observed latency; fades within some 200 observations.",
                                  MetricType::Gauge);
    MetricFamily bias = NewFamily("gpueta_prediction_recent_bias_ratio",
                                  "Geometric mean of predicted over observed latency; fades within some 200 "
                                  "observations.",
                                  MetricType::Gauge);
    MetricFamily drift =
        NewFamily("gpueta_drift_state", "1: alarm, the device became slower than its profile; -1: faster; 0: no alarm.",
                  MetricType::Gauge);
    MetricFamily correction = NewFamily("gpueta_correction_factor_ratio",
                                        "Factor learnt from observations, by length of the work.", MetricType::Gauge);
    MetricFamily nodes = NewFamily("gpueta_observed_nodes", "Nodes that report observations.", MetricType::Gauge);
    MetricFamily drifted = NewFamily("gpueta_drifted_nodes", "Nodes in alarm by themselves.", MetricType::Gauge);
    MetricFamily size_ape =
        NewFamily("gpueta_prediction_absolute_error_ratio_total",
                  "Sum of absolute errors over the observed latency, by length of the work.", MetricType::Counter);
    MetricFamily size_count =
        NewFamily("gpueta_prediction_observed_total", "Observations, by length of the work.", MetricType::Counter);
    std::map<std::string, ObservedCounts> devices;
    for (const WatchSample& w : watches) {
      const Labels labels{{"device", w.device}, {"op", std::string(Name(w.family))}};
      AddRatios(ratio, labels, w.observed);
      AddCounter(p90, labels, static_cast<double>(w.observed.below_p90));
      AddCounter(p99, labels, static_cast<double>(w.observed.below_p99));
      AddGauge(mape, labels, w.recent.Mape());
      AddGauge(bias, labels, std::exp(w.recent.LnBias()));
      AddGauge(drift, labels, DriftValue(w.drift));
      for (int c = 0; c < kSizeClasses; ++c) {
        Labels with_size = labels;
        with_size.push_back({"size", kSizeNames[c]});
        AddGauge(correction, std::move(with_size), w.correction.factor[static_cast<std::size_t>(c)]);
      }
      AddGauge(nodes, labels, w.nodes);
      AddGauge(drifted, labels, w.nodes_in_alarm);
      const bool room = devices.size() + 1 < kMostDevices || devices.contains(w.device);
      devices[room ? w.device : kOther].Merge(w.observed);
    }
    for (const auto& [device, observed] : devices) {
      for (int c = 0; c < kSizeClasses; ++c) {
        const Labels labels{{"device", device}, {"size", kSizeNames[c]}};
        const ObservedCounts::BySize& size = observed.sizes[static_cast<std::size_t>(c)];
        AddCounter(size_ape, labels, size.ape_sum);
        AddCounter(size_count, labels, static_cast<double>(size.count));
      }
    }
    return {std::move(ratio),   std::move(p90),      std::move(p99),        std::move(mape),
            std::move(bias),    std::move(drift),    std::move(correction), std::move(nodes),
            std::move(drifted), std::move(size_ape), std::move(size_count)};
  }

  std::function<FeedbackSample()> sample_;
};

}  // namespace

std::shared_ptr<prometheus::Collectable> MakeFeedbackMetrics(std::function<FeedbackSample()> sample) {
  return std::make_shared<FeedbackMetrics>(std::move(sample));
}

}  // namespace gpueta
