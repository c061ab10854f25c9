// What an estimate is made of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops/kernel.h"

namespace gpueta {

// What an estimate rests on. It describes; it does not choose the form.
enum class Provenance : std::uint8_t {
  kMeasured,      // this very kernel was measured on this device
  kInterpolated,  // within the hull of this device's measurements
  kExtrapolated,  // outside it
  kTransferred,   // other devices' measurements dominate
  kRoofline,      // data sheet only
  kEmulated,      // measured on a host configured to act as this device
};
std::string_view Name(Provenance provenance);

// What limits a kernel.
enum class Bound : std::uint8_t { kCompute, kMemory, kLaunch, kCommunication };
std::string_view Name(Bound bound);

// One-sided: the observed latency is at or below p90 in 90 % of cases.
struct Quantiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

struct Estimate {
  Quantiles latency_us;
  Provenance provenance = Provenance::kRoofline;
  double correction = 1;       // learnt from observations, already in the quantiles
  std::string_view estimator;  // the form, static storage
  Bound bound = Bound::kCompute;
};

// Kernels with the same work are one part.
struct GraphPart {
  Kernel kernel;  // of the first occurrence, dims bound
  std::int64_t count = 0;
  Estimate estimate;  // of one occurrence
  // Of `count`, those that run beside others, off the critical path.
  std::int64_t hidden = 0;

  // What the graph's median has of it, µs.
  double ExposedUs() const { return static_cast<double>(count - hidden) * estimate.latency_us.p50; }
};

// What the median of a graph is made of, before correction: kernels and gaps one
// after the other on the device, combined with the host's time to issue them
// (core/predict/compose.h).
struct GraphTime {
  double kernels_us = 0;  // of all parts on the critical path with their repetitions
  double gaps_us = 0;     // between kernels on the device
  double host_us = 0;     // to issue all kernels; 0: the host is never late
  double start_us = 0;    // before any kernel: entering the step, copying its inputs
};

struct GraphEstimate {
  Quantiles latency_us;
  GraphTime time;
  std::map<Provenance, double> provenance;  // share of the p50
  double correction = 1;
  std::string estimator;         // of the largest share
  std::vector<GraphPart> parts;  // in order of first occurrence
  std::int64_t memory_bytes = 0;
  std::vector<std::string> warnings;
};

}  // namespace gpueta
