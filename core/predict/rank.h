// Devices in order: by latency, by cost, by meeting a limit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/predict/estimate.h"

namespace gpueta {

// P(latency ≤ limit_us): 0.5, 0.9 and 0.99 at the quantiles, normal in
// ln(latency) between and beyond them; the lower half is the mirror of the part
// up to p90. Wants 0 < p50 ≤ p90 ≤ p99.
double ProbabilityWithin(const Quantiles& latency_us, double limit_us);

enum class MeetsLimit : std::uint8_t {
  kYes,      // with the confidence asked for
  kPerhaps,  // neither is sure
  kNo,       // misses it with that confidence, or cannot run the work
};

// A device that could do some work.
struct RankedCandidate {
  Quantiles latency_us;
  bool fits = true;                      // the work, into its memory
  std::optional<double> price_per_hour;  // of all devices that the work runs on together
};

struct RankOptions {
  std::optional<double> limit_us;
  double confidence = 0.9;  // above 0.5, below 1
};

// Places count from 1. Candidates of equal place are ties: their latencies
// cannot be told apart at the confidence from that of the first of them, taking
// errors of devices to be independent. After a tie of two the next place is 3.
// 0: not ranked, as there is no price or no limit.
struct DevicePlace {
  int by_latency = 0;
  int by_cost = 0;
  // Those that meet the limit first, then those that may, then the others;
  // within each by cost where all have a price, else by latency.
  int by_limit = 0;
  double cost = 0;                // price of one run at the p50
  double within_probability = 0;  // of meeting the limit
  MeetsLimit meets = MeetsLimit::kNo;
};

// One for each candidate, in their order. What does not fit stands behind all
// that does.
std::vector<DevicePlace> RankDevices(std::span<const RankedCandidate> candidates, const RankOptions& options);

}  // namespace gpueta
