// What was traced on one device, on another.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/predict/estimate.h"
#include "core/predict/predictor.h"

namespace gpueta {

// The form that scales what a profiler recorded.
inline constexpr std::string_view kTracedEstimator = "traced";

// As `here` would run a graph whose nodes took `traced_us` on the device that
// `traced_on` answers for, at the defaults of its symbols. A kernel takes its traced
// time by the ratio of what the cost model says of both devices and dims; one that
// no table knows by the ratio of their rooflines. Kernels of equal work share their
// mean; those of 0 µs are as the model says. Time between kernels is the host's, by
// the model of `here`; streams are kept. Intervals are the model's.
// Errors as Predictor::EstimateGraph of either; INVALID_ARGUMENT for another number of
// times than of nodes.
absl::StatusOr<GraphEstimate> EstimateTraced(const Predictor& here, const Predictor& traced_on, const Graph& graph,
                                             std::span<const double> traced_us, const SymbolValues& dims,
                                             const EstimateOptions& options);

}  // namespace gpueta
