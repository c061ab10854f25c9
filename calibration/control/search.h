// Finding the configuration in which a host comes nearest to a target.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/control/configuration.h"
#include "calibration/control/rates.h"

namespace gpueta {

struct Probe {
  Configuration configuration{};
  DeviceRates rates;
};

// What the host can do in a configuration: a measurement of seconds.
using ProbeDevice = std::function<absl::StatusOr<DeviceRates>(const Configuration&)>;

struct SearchPolicy {
  std::size_t probes = 10;  // the unrestricted one included
  // Peak rates and bandwidth measured twice differ by one to three percent.
  double good_enough = 0.03;
};

struct SearchResult {
  std::vector<Probe> probes;  // in order
  std::size_t nearest = 0;    // the one with the smallest Distance to the goals
};

// `unrestricted` is the first probe. A linear belief of how each knob moves each
// rate, from what is known of devices in general and then from the probes, says
// which configuration to probe next: the one it expects nearest to the goals.
// Ends when a probe is near enough, when no configuration is expected nearer
// than the best probe, or when the probes are used up. Deterministic. Returns
// the first error of `probe`.
absl::StatusOr<SearchResult> FindConfiguration(const ControlSpace& space, std::span<const ClassGoal> goals,
                                               Probe unrestricted, const ProbeDevice& probe,
                                               const SearchPolicy& policy = {});

}  // namespace gpueta
