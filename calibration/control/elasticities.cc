#include "calibration/control/elasticities.h"

#include <cmath>

namespace gpueta {
namespace {

// How far a real kernel's elasticities are from the perfect kernel's shares.
// Caches hold some of what the roofline takes for memory traffic, and of the
// size of the cache the roofline knows nothing; the launch is off by a share of
// itself.
ByLimit DeviationsOf(const ByLimit& shares) { return {0.3, 0.3, 0.15, 0.5 * shares[3]}; }

// A line in ln only near by, as in the search.
constexpr double kCurvature = 0.1;

}  // namespace

LinearBelief<kLimitCount> ElasticitiesOf(const ByLimit& shares, std::span<const Neighbour> neighbours) {
  LinearBelief<kLimitCount> belief(shares, DeviationsOf(shares));
  for (const Neighbour& neighbour : neighbours) {
    double far = 0;
    for (const double change : neighbour.rate_change) far += change * change;
    belief.Observe(neighbour.rate_change, -neighbour.latency_change,
                   neighbour.noise * neighbour.noise + std::pow(kCurvature * far, 2));
  }
  return belief;
}

Carried Carry(const LinearBelief<kLimitCount>& elasticities, const LimitResiduals& residuals) {
  ByLimit change{};
  for (std::size_t i = 0; i < kLimitCount; ++i) change[i] = residuals[i].mean;
  const auto faster = elasticities.At(change);
  Carried carried{.change = -faster.mean, .own_variance = faster.variance};
  for (std::size_t i = 0; i < kLimitCount; ++i) {
    ByLimit unit{};
    unit[i] = 1;
    const auto elasticity = elasticities.At(unit);
    carried.shared_variance += (elasticity.mean * elasticity.mean + elasticity.variance) * residuals[i].variance;
  }
  return carried;
}

}  // namespace gpueta
