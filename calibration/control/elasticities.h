// Carrying latencies measured on nearly the right device over to the right one.
#pragma once

#include <span>
#include <vector>

#include "calibration/control/linear_belief.h"
#include "calibration/control/rates.h"

namespace gpueta {

// A kernel's latency in a configuration whose rates differ from those of the
// chosen one.
struct Neighbour {
  ByLimit rate_change{};      // ln(rate there / rate in the chosen one)
  double latency_change = 0;  // ln(latency there / latency in the chosen one)
  double noise = 0;           // standard deviation of latency_change
};

// By how much ln(latency) falls for each unit of ln(rate): begins at the
// perfect kernel's shares, learns from the neighbours.
LinearBelief<kLimitCount> ElasticitiesOf(const ByLimit& shares, std::span<const Neighbour> neighbours);

// What is left between the target's rate and the one reached, in ln.
struct LimitResidual {
  double mean = 0;      // 0 where one of the two is unknown
  double variance = 0;  // of measuring them; large where one is unknown
};
using LimitResiduals = std::array<LimitResidual, kLimitCount>;

// What a target's rates do to a latency measured on the configured host.
struct Carried {
  double change = 0;           // ln(latency on the target / measured)
  double own_variance = 0;     // the elasticities are not well known
  double shared_variance = 0;  // the rates are not: the same for all kernels
};
Carried Carry(const LinearBelief<kLimitCount>& elasticities, const LimitResiduals& residuals);

}  // namespace gpueta
