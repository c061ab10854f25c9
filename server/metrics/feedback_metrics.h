// What observations say, for Prometheus.
#pragma once

#include <prometheus/collectable.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "server/feedback/feedback.h"

namespace gpueta {

// Whatever clients send, all metrics of the server are at most 5,000 series:
// here at most kMostWatches pairs of device and op (29 series each; the less
// observed ones are together as device `other`), kMostDevices devices (6) and
// kMostModels models (1): 3,940; in metrics.h some 700 for calls and
// predictions and 200 for profiles.
inline constexpr std::size_t kMostWatches = 120;
inline constexpr std::size_t kMostDevices = 60;
inline constexpr std::size_t kMostModels = 100;

std::shared_ptr<prometheus::Collectable> MakeFeedbackMetrics(std::function<FeedbackSample()> sample);

}  // namespace gpueta
