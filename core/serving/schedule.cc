#include "core/serving/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kGoldenRatio = 0.6180339887498949;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 26;
constexpr std::size_t kMostRequests = 1 << 16;
constexpr int kMostScenarios = 1024;

absl::Status CheckRequest(std::string_view list, std::size_t i, const Request& request, bool running) {
  const Sequence& s = request.sequence;
  const auto wrong = [&](std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high) {
    return FieldError(fmt::format("{}[{}].{}", list, i, name),
                      fmt::format("{} is not from {} to {}", value, low, high));
  };
  const auto outside = [](std::int64_t x, std::int64_t low, std::int64_t high) { return x < low || x > high; };
  if (outside(s.prompt_tokens, 1, kMostTokens)) return wrong("prompt_tokens", s.prompt_tokens, 1, kMostTokens);
  if (outside(s.cached_tokens, 0, s.prompt_tokens)) return wrong("cached_tokens", s.cached_tokens, 0, s.prompt_tokens);
  if (outside(s.generated_tokens, 0, kMostTokens)) return wrong("generated_tokens", s.generated_tokens, 0, kMostTokens);
  const std::int64_t most = running ? s.known_tokens() - 1 : 0;
  if (outside(s.computed_tokens, 0, most)) return wrong("computed_tokens", s.computed_tokens, 0, most);
  if (s.output_tokens != 0 && outside(s.output_tokens, s.generated_tokens + 1, kMostTokens)) {
    return wrong("output_tokens", s.output_tokens, s.generated_tokens + 1, kMostTokens);
  }
  for (const double us : {request.since_arrival_us, std::abs(request.since_first_token_us), request.transfer_us}) {
    if (!std::isfinite(us) || us < 0) {
      return FieldError(fmt::format("{}[{}]", list, i), "times must be finite and not negative");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Check(const EngineState& state) {
  GPUETA_RETURN_IF_ERROR(InField("limits", Engine::Check(state.limits)));
  if (state.running.size() + state.waiting.size() > kMostRequests) {
    return FieldError("state", fmt::format("more than {} requests", kMostRequests));
  }
  for (std::size_t i = 0; i < state.running.size(); ++i) {
    GPUETA_RETURN_IF_ERROR(CheckRequest("running", i, state.running[i], true));
  }
  for (std::size_t i = 0; i < state.waiting.size(); ++i) {
    GPUETA_RETURN_IF_ERROR(CheckRequest("waiting", i, state.waiting[i], false));
  }
  if (!std::isfinite(state.step_in_flight_us) || state.step_in_flight_us < 0) {
    return FieldError("step_in_flight_us", "must be finite and not negative");
  }
  return absl::OkStatus();
}

namespace {

// A request's length in a scenario: its own lengths are spread evenly over the
// distribution, those of different requests are unrelated.
std::int64_t LengthOf(const Request& request, std::size_t id, int scenario, int scenarios,
                      const OutputLengths& lengths) {
  if (request.sequence.output_tokens > 0) return request.sequence.output_tokens;
  double whole = 0;
  const double u = std::modf((scenario + 0.5) / scenarios + static_cast<double>(id) * kGoldenRatio, &whole);
  return std::max(lengths.Draw(u, request.sequence.generated_tokens), request.sequence.generated_tokens + 1);
}

// When the first and the last token of each request come, from now on.
struct Played {
  std::vector<double> first_us;
  std::vector<double> last_us;
  std::vector<std::int64_t> tokens;  // generated in the end
  double sigma_us = 0;               // Σ sigma·latency
  double busy_us = 0;
};

class Player {
 public:
  Player(const EngineState& state, const StepTable& table, const ScheduleOptions& options)
      : state_(state), table_(table), options_(options) {}

  // Of a scenario with these lengths.
  const Played& Play(const std::vector<std::int64_t>& output_tokens) {
    const std::size_t count = output_tokens.size();
    played_.first_us.assign(count, kNever);
    played_.last_us.assign(count, kNever);
    played_.tokens = output_tokens;
    played_.sigma_us = played_.busy_us = 0;
    Engine engine(state_.limits);
    const auto with_length = [&](const Request& request, std::size_t id) {
      Sequence sequence = request.sequence;
      sequence.output_tokens = output_tokens[id];
      return sequence;
    };
    std::size_t id = 0;
    for (const Request& request : state_.running) {
      engine.AddRunning(with_length(request, id), id);
      ++id;
    }
    // Those on their way come in when they are here.
    std::vector<std::pair<double, std::size_t>> coming;
    for (const Request& request : state_.waiting) {
      if (request.transfer_us > 0) {
        coming.emplace_back(request.transfer_us, id);
      } else {
        engine.AddWaiting(with_length(request, id), id);
      }
      ++id;
    }
    std::ranges::sort(coming);
    std::size_t arrived = 0;
    double now_us = state_.step_in_flight_us;
    std::size_t left = count;
    for (std::int64_t steps = 0; left > 0 && steps < options_.max_steps; ++steps) {
      if (engine.idle() && arrived < coming.size()) now_us = std::max(now_us, coming[arrived].first);
      for (; arrived < coming.size() && coming[arrived].first <= now_us; ++arrived) {
        const std::size_t at = coming[arrived].second;
        engine.AddWaiting(with_length(state_.waiting[at - state_.running.size()], at), at);
      }
      engine.Schedule();
      if (!engine.anything_scheduled()) break;  // the first one never fits
      now_us += RunSteps(engine, arrived < coming.size() ? coming[arrived].first - now_us : kNever);
      for (const Engine::Event& event : events_) {
        if (event.first_token) played_.first_us[event.id] = now_us;
        if (event.ended) {
          played_.last_us[event.id] = now_us;
          --left;
        }
      }
    }
    return played_;
  }

 private:
  // As many equal steps as possible at once, not much past `until_us` from now;
  // how long they take. Context grows by one a step, and latency with it nearly
  // linearly: the mean of the first and the last stands for all.
  double RunSteps(Engine& engine, double until_us) {
    engine.ChunksOf(chunks_);
    const StepLoad load{chunks_, engine.decoding(), engine.mean_context(),
                        static_cast<double>(engine.longest_context())};
    const StepLatency first = table_.Latency(load);
    double each_us = first.p50_us;
    std::int64_t steps = 1 + engine.Repeats();
    if (steps > 1) {
      if (until_us < kNever) steps = std::clamp<std::int64_t>(static_cast<std::int64_t>(until_us / each_us), 1, steps);
      StepLoad last = load;
      last.mean_context += static_cast<double>(steps - 1);
      last.longest_context += static_cast<double>(steps - 1);
      each_us = (each_us + table_.Latency(last).p50_us) / 2;
    }
    const double us = each_us * static_cast<double>(steps);
    played_.sigma_us += first.sigma * us;
    played_.busy_us += us;
    engine.Complete(steps, events_);
    return us;
  }

  const EngineState& state_;
  const StepTable& table_;
  const ScheduleOptions& options_;
  Played played_;
  std::vector<PrefillChunk> chunks_;
  std::vector<Engine::Event> events_;
};

}  // namespace

LatencyForecast::LatencyForecast(std::vector<double> us, double sigma) : us_(std::move(us)), sigma_(sigma) {
  std::ranges::sort(us_);
}

double LatencyForecast::Quantile(double quantile, double z) const {
  if (us_.empty()) return 0;
  // Scenario i stands for quantile (i + ½)/n.
  const auto at = [&](double q) {
    const double x = std::clamp(q * static_cast<double>(us_.size()) - 0.5, 0.0, static_cast<double>(us_.size() - 1));
    const auto below = static_cast<std::size_t>(x);
    const auto above = std::min(below + 1, us_.size() - 1);
    const double share = x - static_cast<double>(below);
    if (share == 0 || us_[below] == us_[above]) return us_[below];  // both may be infinite
    return us_[below] + share * (us_[above] - us_[below]);
  };
  const double median = at(0.5);
  const double spread = at(quantile);
  if (!std::isfinite(spread) || !std::isfinite(median) || median <= 0) return spread;
  const double of_lengths = std::log(spread / median);
  const double of_steps = sigma_ * z;
  const double ln = std::hypot(of_lengths, of_steps);
  return median * std::exp(quantile < 0.5 ? -ln : ln);
}

absl::StatusOr<std::vector<RequestForecast>> Forecast(const EngineState& state, const StepTable& table,
                                                      const OutputLengths& lengths, const ScheduleOptions& options) {
  GPUETA_RETURN_IF_ERROR(Check(state));
  if (options.scenarios < 1 || options.scenarios > kMostScenarios) {
    return FieldError("scenarios", fmt::format("{} is not from 1 to {}", options.scenarios, kMostScenarios));
  }
  const std::size_t count = state.running.size() + state.waiting.size();
  const auto request = [&](std::size_t id) -> const Request& {
    return id < state.running.size() ? state.running[id] : state.waiting[id - state.running.size()];
  };
  const auto scenarios = static_cast<std::size_t>(options.scenarios);
  std::vector<std::vector<double>> ttft(count), tpot(count), e2e(count);
  Player player(state, table, options);
  std::vector<std::int64_t> output_tokens(count);
  double sigma_us = 0;
  double busy_us = 0;
  for (std::size_t s = 0; s < scenarios; ++s) {
    for (std::size_t id = 0; id < count; ++id) {
      output_tokens[id] = LengthOf(request(id), id, static_cast<int>(s), options.scenarios, lengths);
    }
    const Played& played = player.Play(output_tokens);
    for (std::size_t id = 0; id < count; ++id) {
      const Request& r = request(id);
      const bool started = r.sequence.generated_tokens > 0;
      if (!started) ttft[id].push_back(r.since_arrival_us + played.first_us[id]);
      e2e[id].push_back(r.since_arrival_us + played.last_us[id]);
      const double since_first_us = started                             ? r.since_first_token_us + played.last_us[id]
                                    : std::isfinite(played.last_us[id]) ? played.last_us[id] - played.first_us[id]
                                                                        : kNever;
      tpot[id].push_back(since_first_us / static_cast<double>(std::max<std::int64_t>(played.tokens[id] - 1, 1)));
    }
    sigma_us += played.sigma_us;
    busy_us += played.busy_us;
  }
  const double sigma = busy_us > 0 ? sigma_us / busy_us : 0;
  std::vector<RequestForecast> forecasts(count);
  for (std::size_t id = 0; id < count; ++id) {
    forecasts[id].ttft_us = LatencyForecast(std::move(ttft[id]), sigma);
    forecasts[id].tpot_us = LatencyForecast(std::move(tpot[id]), sigma);
    forecasts[id].e2e_us = LatencyForecast(std::move(e2e[id]), sigma);
  }
  return forecasts;
}

}  // namespace gpueta
