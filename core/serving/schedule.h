// What will become of the requests in an engine: its schedule played forward.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/serving/engine.h"
#include "core/serving/output_lengths.h"
#include "core/serving/step_table.h"

namespace gpueta {

// A request with its history, as a router knows it.
struct Request {
  Sequence sequence;                // output_tokens 0: unknown
  double since_arrival_us = 0;      // how long ago it arrived
  double since_first_token_us = 0;  // of those that have one; below 0: it is still to come, from elsewhere
  // Before a sequence decodes here, its keys and values come over a link, as
  // where prefill and decode have pools of their own.
  double transfer_us = 0;
};

struct EngineState {
  EngineLimits limits;
  std::vector<Request> running;  // in the engine's order
  std::vector<Request> waiting;  // first come first
  double step_in_flight_us = 0;  // what is left of the step that runs now
};

// One latency over the scenarios that were played.
class LatencyForecast {
 public:
  LatencyForecast() = default;
  // `us` by scenario, infinite where it never comes; `sigma`: deviation of
  // ln(step latency) around its prediction.
  LatencyForecast(std::vector<double> us, double sigma);
  bool empty() const { return us_.empty(); }
  // What stays unknown is taken as two independent parts, which output lengths
  // will come and how far step latencies are off; their distances from the
  // median in ln add up in squares. One-sided: at or below it in this share of
  // cases.
  double Quantile(double quantile) const { return Quantile(quantile, NormalQuantile(quantile)); }
  // The same where z = NormalQuantile(quantile) is at hand.
  double Quantile(double quantile, double z) const;

 private:
  std::vector<double> us_;  // sorted
  double sigma_ = 0;
};

struct RequestForecast {
  LatencyForecast ttft_us;  // from arrival; empty if the first token is out
  LatencyForecast tpot_us;  // mean gap between tokens from the first one on
  LatencyForecast e2e_us;   // from arrival to the last token
};

struct ScheduleOptions {
  int scenarios = 8;  // of output lengths; each is played
  // Played no further than so many steps; what is not done by then never is.
  std::int64_t max_steps = 200'000;
};

// INVALID_ARGUMENT naming the field for limits, sequences or times that cannot
// be.
absl::Status Check(const EngineState& state);

// Forecasts for running, then waiting requests, in order: what becomes of them
// if nothing else arrives. Requests of unknown length draw from `lengths`, the
// same request the same lengths whatever else is in the state, so that two
// states can be compared. Deterministic. Errors as Check.
absl::StatusOr<std::vector<RequestForecast>> Forecast(const EngineState& state, const StepTable& table,
                                                      const OutputLengths& lengths,
                                                      const ScheduleOptions& options = {});

}  // namespace gpueta
