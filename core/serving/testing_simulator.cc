#include "core/serving/testing_simulator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/base/csv.h"
#include "core/base/errors.h"

namespace gpueta::testing {
namespace {

// One engine with its own clock.
class Simulated {
 public:
  Simulated(const SimulatedReplica& replica, std::uint64_t seed)
      : replica_(replica), engine_(replica.seen.state.limits), draw_(seed) {}

  // Runs steps that begin before `until_us`; a step that has begun is finished.
  void RunUntil(double until_us, const std::vector<Arrival>& arrivals, std::vector<Outcome>& outcomes) {
    while (true) {
      if (in_flight_) {
        if (now_us_ > until_us) return;
        FinishStep(arrivals, outcomes);
      }
      if (engine_.idle()) {
        now_us_ = std::max(now_us_, until_us);
        return;
      }
      if (now_us_ > until_us) return;
      engine_.Schedule();
      if (!engine_.anything_scheduled()) return;
      engine_.ChunksOf(chunks_);
      const double p50_us = replica_.seen.table
                                ->Latency({chunks_, engine_.decoding(), engine_.mean_context(),
                                           static_cast<double>(engine_.longest_context())})
                                .p50_us;
      std::normal_distribution<double> noise(0, replica_.noise);
      now_us_ += p50_us * replica_.slowness * std::exp(noise(draw_));
      in_flight_ = true;
    }
  }

  void Take(std::size_t id, const Arrival& arrival) {
    if (engine_.idle() && !in_flight_) now_us_ = std::max(now_us_, arrival.at_us);
    engine_.AddWaiting({.prompt_tokens = arrival.prompt_tokens, .output_tokens = arrival.output_tokens}, id);
  }

  EngineState StateAt(double at_us, const std::vector<Arrival>& arrivals, bool tell_lengths) const {
    EngineState state;
    state.limits = engine_.limits();
    state.step_in_flight_us = in_flight_ ? std::max(now_us_ - at_us, 0.0) : 0;
    const auto request = [&](const Engine::Entry& entry) {
      Request out;
      out.sequence = entry.sequence;
      if (!tell_lengths) out.sequence.output_tokens = 0;
      out.since_arrival_us = std::max(at_us - arrivals[entry.id].at_us, 0.0);
      if (entry.sequence.generated_tokens > 0) out.since_first_token_us = at_us - first_us_.at(entry.id);
      return out;
    };
    for (const Engine::Entry& entry : engine_.running()) {
      Request running = request(entry);
      // What runs now is done when the forecast begins.
      if (in_flight_) {
        running.sequence.computed_tokens += entry.scheduled;
        if (running.sequence.computed_tokens >= running.sequence.known_tokens()) {
          if (running.sequence.generated_tokens == 0) running.since_first_token_us = at_us - now_us_;
          ++running.sequence.generated_tokens;
          if (entry.sequence.output_tokens <= running.sequence.generated_tokens) continue;  // it ends with the step
        }
      }
      state.running.push_back(running);
    }
    for (const Engine::Entry& entry : engine_.waiting()) {
      Request waiting = request(entry);
      waiting.sequence.computed_tokens = 0;
      state.waiting.push_back(waiting);
    }
    return state;
  }

 private:
  void FinishStep(const std::vector<Arrival>& arrivals, std::vector<Outcome>& outcomes) {
    engine_.Complete(1, events_);
    in_flight_ = false;
    for (const Engine::Event& event : events_) {
      if (event.first_token) {
        first_us_[event.id] = now_us_;
        outcomes[event.id].ttft_us = now_us_ - arrivals[event.id].at_us;
      }
      if (event.ended) {
        outcomes[event.id].done = true;
        const auto gaps = static_cast<double>(std::max<std::int64_t>(arrivals[event.id].output_tokens - 1, 1));
        outcomes[event.id].tpot_us = (now_us_ - first_us_.at(event.id)) / gaps;
      }
    }
  }

  SimulatedReplica replica_;
  Engine engine_;
  std::mt19937_64 draw_;
  double now_us_ = 0;  // the end of the step in flight, if there is one
  bool in_flight_ = false;
  std::map<std::size_t, double> first_us_;
  std::vector<PrefillChunk> chunks_;
  std::vector<Engine::Event> events_;
};

}  // namespace

std::vector<Arrival> MakeArrivals(Pattern pattern, double per_s, int count, double mean_output, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::exponential_distribution<double> gap(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  const OutputLengths lengths = OutputLengths::Geometric(mean_output);
  std::vector<Arrival> arrivals;
  double at_us = 0;
  const double period_us = 40 / per_s * 1e6;
  for (int i = 0; i < count; ++i) {
    double rate = per_s;
    if (pattern == Pattern::kBursty) rate *= std::fmod(at_us, period_us) < 0.2 * period_us ? 4 : 0.25;
    at_us += gap(draw) / rate * 1e6;
    const auto prompt = static_cast<std::int64_t>(128 * std::exp2(4 * uniform(draw)));
    arrivals.push_back({at_us, prompt, lengths.Draw(uniform(draw))});
  }
  return arrivals;
}

absl::StatusOr<std::vector<Arrival>> ReadArrivals(std::istream& in, std::string_view file_name) {
  GPUETA_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(in, file_name));
  const std::vector<std::string> names = {"arrival_s", "prompt_tokens", "output_tokens"};
  if (csv.columns() != names) return InvalidArgument("{}: the columns must be {}", file_name, fmt::join(names, ","));
  std::vector<Arrival> arrivals;
  while (csv.Next()) {
    Arrival arrival;
    GPUETA_ASSIGN_OR_RETURN(const double at_s, csv.Number(0));
    GPUETA_ASSIGN_OR_RETURN(arrival.prompt_tokens, csv.Integer(1));
    GPUETA_ASSIGN_OR_RETURN(arrival.output_tokens, csv.Integer(2));
    arrival.at_us = at_s * 1e6;
    const double last_us = arrivals.empty() ? 0 : arrivals.back().at_us;
    if (!(arrival.at_us >= last_us) || arrival.prompt_tokens < 1 || arrival.output_tokens < 1) {
      return InvalidArgument("{}:{}: times must not go back, tokens must be at least 1", file_name, csv.line());
    }
    arrivals.push_back(arrival);
  }
  GPUETA_RETURN_IF_ERROR(csv.status());
  return arrivals;
}

std::vector<Arrival> AtRate(std::vector<Arrival> arrivals, double per_s) {
  if (arrivals.empty() || arrivals.back().at_us <= 0) return arrivals;
  const double factor = static_cast<double>(arrivals.size()) / per_s * 1e6 / arrivals.back().at_us;
  for (Arrival& arrival : arrivals) arrival.at_us *= factor;
  return arrivals;
}

std::vector<Outcome> Simulate(std::vector<SimulatedReplica> replicas, const std::vector<Arrival>& arrivals,
                              const Router& router, bool tell_lengths, std::uint64_t seed) {
  std::vector<Outcome> outcomes(arrivals.size());
  std::vector<Simulated> engines;
  for (std::size_t r = 0; r < replicas.size(); ++r) engines.emplace_back(replicas[r], seed + r);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      engines[r].RunUntil(arrivals[i].at_us, arrivals, outcomes);
      replicas[r].seen.state = engines[r].StateAt(arrivals[i].at_us, arrivals, tell_lengths);
    }
    const std::optional<std::size_t> chosen = router(replicas, arrivals[i]);
    if (!chosen.has_value()) continue;
    outcomes[i].admitted = true;
    engines[*chosen].Take(i, arrivals[i]);
  }
  for (Simulated& engine : engines) engine.RunUntil(1e15, arrivals, outcomes);
  return outcomes;
}

Router ByAdmit(const LatencyLimits& limits) {
  return [limits](const std::vector<SimulatedReplica>& replicas, const Arrival& arrival) {
    std::vector<Replica> seen;
    for (const SimulatedReplica& replica : replicas) seen.push_back(replica.seen);
    return Admit(seen, {.prompt_tokens = arrival.prompt_tokens}, limits).value().recommended;
  };
}

Router Oracle(const LatencyLimits& limits) {
  return [limits](const std::vector<SimulatedReplica>& replicas, const Arrival& arrival) {
    std::optional<std::size_t> best;
    double best_margin = 0;
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      // In units of predicted time, this replica keeps its predictions exactly.
      const double scale = 1 / replicas[r].slowness;
      const Replica& replica = replicas[r].seen;
      EngineState state = replica.state;
      state.step_in_flight_us *= scale;
      for (auto* list : {&state.running, &state.waiting}) {
        for (Request& request : *list) {
          request.since_arrival_us *= scale;
          request.since_first_token_us *= scale;
        }
      }
      const ScheduleOptions once = {.scenarios = 1};
      const auto before = Forecast(state, *replica.table, replica.lengths, once).value();
      Request request;
      request.sequence = {.prompt_tokens = arrival.prompt_tokens, .output_tokens = arrival.output_tokens};
      state.waiting.push_back(request);
      const auto after = Forecast(state, *replica.table, replica.lengths, once).value();
      // Of the candidate, and of all who are in time without it.
      double margin = 1;
      for (std::size_t i = 0; i < after.size(); ++i) {
        const auto see = [&](LatencyForecast RequestForecast::*which, double limit_us) {
          const LatencyForecast& now = after[i].*which;
          const bool late_anyway = i < before.size() && (before[i].*which).Quantile(0.5) > limit_us * scale;
          if (!now.empty() && !late_anyway) margin = std::min(margin, 1 - now.Quantile(0.5) / (limit_us * scale));
        };
        see(&RequestForecast::ttft_us, limits.ttft->us);
        see(&RequestForecast::tpot_us, limits.tpot->us);
      }
      if (margin >= best_margin) {
        best = r;
        best_margin = margin;
      }
    }
    return best;
  };
}

Router FixedConcurrency(std::int64_t most) {
  return [most](const std::vector<SimulatedReplica>& replicas, const Arrival&) -> std::optional<std::size_t> {
    const auto load = [&](std::size_t r) {
      return static_cast<std::int64_t>(replicas[r].seen.state.running.size() + replicas[r].seen.state.waiting.size());
    };
    std::size_t best = 0;
    for (std::size_t r = 1; r < replicas.size(); ++r) {
      if (load(r) < load(best)) best = r;
    }
    return load(best) < most ? std::optional(best) : std::nullopt;
  };
}

Router QueueLength(std::size_t most_waiting) {
  return [most_waiting](const std::vector<SimulatedReplica>& replicas, const Arrival&) -> std::optional<std::size_t> {
    std::size_t best = 0;
    const auto waiting = [&](std::size_t r) { return replicas[r].seen.state.waiting.size(); };
    const auto running = [&](std::size_t r) { return replicas[r].seen.state.running.size(); };
    for (std::size_t r = 1; r < replicas.size(); ++r) {
      if (std::pair(waiting(r), running(r)) < std::pair(waiting(best), running(best))) best = r;
    }
    return waiting(best) <= most_waiting ? std::optional(best) : std::nullopt;
  };
}

Score Judge(const std::vector<Outcome>& outcomes, const LatencyLimits& limits) {
  Score score;
  int ttft = 0, tpot = 0;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.admitted) continue;
    ++score.admitted;
    const bool first = outcome.done && outcome.ttft_us <= limits.ttft->us;
    const bool rest = outcome.done && outcome.tpot_us <= limits.tpot->us;
    ttft += first ? 1 : 0;
    tpot += rest ? 1 : 0;
    score.good += first && rest ? 1 : 0;
  }
  const auto share = [&](int n) { return score.admitted == 0 ? 1 : static_cast<double>(n) / score.admitted; };
  score.met_ttft = share(ttft);
  score.met_tpot = share(tpot);
  score.met_both = share(score.good);
  return score;
}

}  // namespace gpueta::testing
