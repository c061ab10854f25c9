// What a kernel's time goes with, by the form that answers for it.
#pragma once

#include <functional>

#include "core/ops/machine.h"
#include "core/predict/estimate.h"

namespace gpueta {

// Shares of a latency, their sum 1: how many percent it would fall for each
// percent of faster arithmetic, or of faster memory. What neither makes
// faster is launch and latency; of a collective it is communication.
struct RegimeShares {
  double compute = 0;
  double memory = 0;
  double rest = 0;
};

// `latency_us` gives the form's latency on a machine. By central differences.
RegimeShares SharesOf(const Machine<double>& machine, const std::function<double(const Machine<double>&)>& latency_us);

// What the largest share is called; the rest of a collective is communication,
// of any other op launch.
Bound LargestOf(const RegimeShares& shares, Op op);

}  // namespace gpueta
