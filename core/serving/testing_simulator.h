// A simulated fleet of engines, for tests of what admission promises. It runs
// every step of every replica one by one with its own true step times; routers
// see what real ones see: no output length, no step time.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/serving/admit.h"

namespace gpueta::testing {

struct Arrival {
  double at_us = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
};

enum class Pattern : std::uint8_t {
  kPoisson,
  kBursty,  // four times the rate for a fifth of the time, else a quarter
};

// `count` arrivals at a mean rate; prompts log-uniform from 128 to 2048 tokens,
// outputs geometric.
std::vector<Arrival> MakeArrivals(Pattern pattern, double per_s, int count, double mean_output, std::uint64_t seed);

// Arrivals that were recorded: a CSV with arrival_s, prompt_tokens and
// output_tokens, in order. INVALID_ARGUMENT naming line and column.
absl::StatusOr<std::vector<Arrival>> ReadArrivals(std::istream& in, std::string_view file_name);
// The same pattern, quicker or slower, so that its mean rate is this.
std::vector<Arrival> AtRate(std::vector<Arrival> arrivals, double per_s);

struct SimulatedReplica {
  Replica seen;         // limits, table, lengths; its state is filled in
  double slowness = 1;  // true step times over predicted p50
  double noise = 0.02;  // deviation of ln of single steps around that
};

// The true outcome of one arrival.
struct Outcome {
  bool admitted = false;
  bool done = false;
  double ttft_us = 0;
  double tpot_us = 0;
};

// What a router knows when a request arrives: each replica as it stands, and
// for an oracle also true lengths (in the state) and slowness.
using Router = std::function<std::optional<std::size_t>(const std::vector<SimulatedReplica>&, const Arrival&)>;

// Replicas' states carry true output lengths only where `tell_lengths`.
std::vector<Outcome> Simulate(std::vector<SimulatedReplica> replicas, const std::vector<Arrival>& arrivals,
                              const Router& router, bool tell_lengths, std::uint64_t seed);

// Routers.
Router ByAdmit(const LatencyLimits& limits);
// Knows true lengths and step times: nobody is made late. Needs tell_lengths.
Router Oracle(const LatencyLimits& limits);
Router FixedConcurrency(std::int64_t most);
Router QueueLength(std::size_t most_waiting);

struct Score {
  int admitted = 0;
  double met_ttft = 0;  // shares of admitted
  double met_tpot = 0;
  double met_both = 0;
  int good = 0;  // admitted and both met
};
Score Judge(const std::vector<Outcome>& outcomes, const LatencyLimits& limits);

}  // namespace gpueta::testing
