#include "core/predict/rank.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace gpueta {
namespace {

constexpr double kZ90 = 1.2815515655446004;  // normal quantiles
constexpr double kZ99 = 2.3263478740408408;
constexpr double kUsPerHour = 3.6e9;

double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// Of a probability above 0.5, by bisection: nothing here is in a hurry.
double NormalQuantile(double probability) {
  double low = 0;
  double high = 10;
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (NormalCdf(middle) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Standard deviation of ln(latency) as its p90 tells it.
double SpreadOf(const Quantiles& us) { return std::log(us.p90 / us.p50) / kZ90; }

MeetsLimit Verdict(const RankedCandidate& candidate, double probability, double confidence) {
  if (!candidate.fits || probability <= 1 - confidence) return MeetsLimit::kNo;
  return probability >= confidence ? MeetsLimit::kYes : MeetsLimit::kPerhaps;
}

// Gives places in the order of `value`, classes first, to candidates; of one
// class those tie whose values are within the noise of the first of them.
void Place(std::span<const RankedCandidate> candidates, const std::function<int(std::size_t)>& class_of,
           const std::function<double(std::size_t)>& value_of, double z, int DevicePlace::*place,
           std::vector<DevicePlace>& places) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair(class_of(i), value_of(i)); });
  std::size_t first = 0;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const std::size_t a = order[first];
    const std::size_t b = order[at];
    const double noise = std::hypot(SpreadOf(candidates[a].latency_us), SpreadOf(candidates[b].latency_us));
    const bool ties = class_of(a) == class_of(b) && std::log(value_of(b) / value_of(a)) <= z * noise;
    if (!ties) first = at;
    places[b].*place = static_cast<int>(first) + 1;
  }
}

}  // namespace

double ProbabilityWithin(const Quantiles& latency_us, double limit_us) {
  const double step = std::log(limit_us / latency_us.p50);
  const double to_p90 = std::log(latency_us.p90 / latency_us.p50);
  if (step <= to_p90) {
    if (to_p90 > 0) return NormalCdf(kZ90 * step / to_p90);
    return step < 0 ? 0 : 0.9;
  }
  const double to_p99 = std::log(latency_us.p99 / latency_us.p90);
  if (!(to_p99 > 0)) return 1;
  return NormalCdf(kZ90 + (kZ99 - kZ90) * (step - to_p90) / to_p99);
}

std::vector<DevicePlace> RankDevices(std::span<const RankedCandidate> candidates, const RankOptions& options) {
  std::vector<DevicePlace> places(candidates.size());
  bool priced = !candidates.empty();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const RankedCandidate& candidate = candidates[i];
    priced = priced && candidate.price_per_hour.has_value();
    places[i].cost = candidate.price_per_hour.value_or(0) * candidate.latency_us.p50 / kUsPerHour;
    if (!options.limit_us.has_value()) continue;
    places[i].within_probability = candidate.fits ? ProbabilityWithin(candidate.latency_us, *options.limit_us) : 0;
    places[i].meets = Verdict(candidate, places[i].within_probability, options.confidence);
  }
  const double z = NormalQuantile(options.confidence);
  const auto fits = [&](std::size_t i) { return candidates[i].fits ? 0 : 1; };
  const auto latency = [&](std::size_t i) { return candidates[i].latency_us.p50; };
  const auto cost = [&](std::size_t i) { return places[i].cost; };
  Place(candidates, fits, latency, z, &DevicePlace::by_latency, places);
  if (priced) Place(candidates, fits, cost, z, &DevicePlace::by_cost, places);
  if (options.limit_us.has_value()) {
    const auto meets = [&](std::size_t i) { return static_cast<int>(places[i].meets); };
    Place(candidates, meets, priced ? std::function<double(std::size_t)>(cost) : latency, z, &DevicePlace::by_limit,
          places);
  }
  return places;
}

}  // namespace gpueta
