#include "core/predict/regime.h"

#include <algorithm>
#include <cmath>

namespace gpueta {
namespace {

// Large against rounding, small against the bends of the forms.
constexpr double kStep = 1e-3;

}  // namespace

RegimeShares SharesOf(const Machine<double>& machine, const std::function<double(const Machine<double>&)>& latency_us) {
  const auto share_of = [&](double Machine<double>::*rate) {
    const auto us_at = [&](double factor) {
      Machine<double> changed = machine;
      changed.*rate *= factor;
      return latency_us(changed.As<double>());  // with what follows from the rate
    };
    return std::clamp(std::log(us_at(std::exp(-kStep)) / us_at(std::exp(kStep))) / (2 * kStep), 0.0, 1.0);
  };
  RegimeShares shares;
  shares.compute = share_of(&Machine<double>::peak);
  shares.memory = std::min(share_of(&Machine<double>::bandwidth), 1 - shares.compute);
  shares.rest = 1 - shares.compute - shares.memory;
  return shares;
}

Bound LargestOf(const RegimeShares& shares, Op op) {
  if (shares.compute >= std::max(shares.memory, shares.rest)) return Bound::kCompute;
  if (shares.memory >= shares.rest) return Bound::kMemory;
  return op == Op::kCollective ? Bound::kCommunication : Bound::kLaunch;
}

}  // namespace gpueta
