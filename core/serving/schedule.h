// What will become of the requests in an engine: its schedule played forward.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
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
  using Scenarios = absl::InlinedVector<double, 8>;

  LatencyForecast() = default;
  // `us` by scenario, infinite where it never comes; `sigma`: deviation of
  // ln(step latency) around its prediction.
  LatencyForecast(Scenarios us, double sigma);
  bool empty() const { return us_.empty(); }
  double Median() const;
  // What stays unknown is taken as two independent parts, which output lengths
  // will come and how far step latencies are off; their distances from the
  // median in ln add up in squares. One-sided: at or below it in this share of
  // cases.
  double Quantile(const QuantilePoint& at) const;
  double Quantile(double quantile) const { return Quantile(QuantilePoint::At(quantile)); }
  // Appends ln of these quantiles; of what is not above 0 minus infinity.
  void AppendLn(std::span<const QuantilePoint> at, std::vector<double>& ln) const;

 private:
  double OfLengths(double quantile) const;  // sigma aside

  Scenarios us_;  // sorted
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

// Forecasts of one state after the other; keeps its memory in between. Not
// thread-safe.
class Forecaster {
 public:
  explicit Forecaster(const ScheduleOptions& options = {}) : options_(options) {}

  // Forecasts for running, then waiting requests, in order, and for `joining`,
  // if not null, at the end of the queue: what becomes of them if nothing else
  // arrives. Requests of unknown length draw from `lengths`, the same request the
  // same lengths whatever else is in the state, so that two states can be
  // compared. Deterministic. Valid until the next call. Errors as Check.
  absl::StatusOr<std::span<const RequestForecast>> Forecast(const EngineState& state, const Request* joining,
                                                            const StepTable& table, const OutputLengths& lengths);

 private:
  // Steps that only decode, `steps` of them with the same sequences; as many of
  // `ended_` have all their output then.
  struct Phase {
    std::int64_t steps = 0;
    std::size_t ends = 0;
  };
  struct Played {
    double now_us = 0;
    std::size_t phases = 0;  // that end it, of all phases
  };

  const Request& RequestAt(const EngineState& state, const Request* joining, std::size_t id) const;
  void DrawLengths(const EngineState& state, const Request* joining, const OutputLengths& lengths);
  // What all scenarios have in common: until in one of them a sequence ends, or
  // steps of one kind follow each other.
  void PlayStart(const EngineState& state, const Request* joining, const StepTable& table);
  // One scenario from there until only decoding is left, of which phases are made.
  Played Play(const EngineState& state, const Request* joining, const StepTable& table, std::size_t scenario);
  Sequence WithLength(const EngineState& state, const Request* joining, std::size_t id, std::size_t scenario) const;
  // Lets those in that are here by now.
  void Arrive(const EngineState& state, const Request* joining, std::size_t scenario, double& now_us,
              std::size_t& arrived);
  // `scenarios`: that have these steps in common.
  double RunSteps(const StepTable& table, double until_us, double scenarios);
  std::size_t AddPhases(std::int64_t most);
  // Looks up all phases at once and adds them up.
  void FinishPhases(const StepTable& table);
  void Collect(const EngineState& state, const Request* joining);

  ScheduleOptions options_;
  std::size_t count_ = 0;                  // requests of the state at hand
  std::vector<LengthQuantile> quantiles_;  // by request, then scenario; of as many as there ever were
  // By scenario, then request.
  std::vector<std::int64_t> output_tokens_;
  std::vector<double> first_us_;
  std::vector<double> last_us_;
  double sigma_us_ = 0;  // Σ sigma·latency over scenarios
  double busy_us_ = 0;
  // Where the scenarios part.
  struct Start {
    Engine engine{EngineLimits{}};
    double now_us = 0;
    std::size_t arrived = 0;  // of those that are coming
    std::int64_t steps = 0;
  };
  Start start_;
  std::vector<std::int64_t> fewest_tokens_;  // of output in any scenario, by request
  Engine engine_{EngineLimits{}};
  std::vector<PrefillChunk> chunks_;
  std::vector<Engine::Event> events_;
  std::vector<std::pair<double, std::size_t>> coming_;
  struct Left {
    std::int64_t steps = 0;    // until it ends
    std::int64_t context = 0;  // of the next step
    std::int64_t longest = 0;  // of it and those that end after it
    std::size_t id = 0;
  };
  std::vector<Left> left_;
  std::vector<Played> played_;
  std::vector<Phase> phases_;
  std::vector<std::size_t> ended_;
  // Two rows a phase: its first and its last step.
  std::vector<std::int32_t> sequences_;
  std::vector<float> mean_, longest_, p50_us_, sigma_;
  std::vector<RequestForecast> forecasts_;
};

// As Forecaster, of one state.
absl::StatusOr<std::vector<RequestForecast>> Forecast(const EngineState& state, const StepTable& table,
                                                      const OutputLengths& lengths,
                                                      const ScheduleOptions& options = {});

}  // namespace gpueta
