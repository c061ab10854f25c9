#include "core/serving/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

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

const Request& Forecaster::RequestAt(const EngineState& state, const Request* joining, std::size_t id) const {
  if (id < state.running.size()) return state.running[id];
  id -= state.running.size();
  return id < state.waiting.size() ? state.waiting[id] : *joining;
}

// A request's own lengths are spread evenly over the distribution, those of
// different requests are unrelated.
void Forecaster::DrawLengths(const EngineState& state, const Request* joining, const OutputLengths& lengths) {
  const auto scenarios = static_cast<std::size_t>(options_.scenarios);
  for (std::size_t id = quantiles_.size() / scenarios; id < count_; ++id) {
    for (std::size_t s = 0; s < scenarios; ++s) {
      double whole = 0;
      quantiles_.push_back(LengthQuantile::Of(std::modf(
          (static_cast<double>(s) + 0.5) / static_cast<double>(scenarios) + static_cast<double>(id) * kGoldenRatio,
          &whole)));
    }
  }
  output_tokens_.resize(scenarios * count_);
  for (std::size_t id = 0; id < count_; ++id) {
    const Sequence& sequence = RequestAt(state, joining, id).sequence;
    for (std::size_t s = 0; s < scenarios; ++s) {
      output_tokens_[s * count_ + id] =
          sequence.output_tokens > 0 ? sequence.output_tokens
                                     : std::max(lengths.Draw(quantiles_[id * scenarios + s], sequence.generated_tokens),
                                                sequence.generated_tokens + 1);
    }
  }
}

Sequence Forecaster::WithLength(const EngineState& state, const Request* joining, std::size_t id,
                                std::size_t scenario) const {
  Sequence sequence = RequestAt(state, joining, id).sequence;
  sequence.output_tokens = output_tokens_[scenario * count_ + id];
  return sequence;
}

void Forecaster::Arrive(const EngineState& state, const Request* joining, std::size_t scenario, double& now_us,
                        std::size_t& arrived) {
  if (engine_.idle() && arrived < coming_.size()) now_us = std::max(now_us, coming_[arrived].first);
  for (; arrived < coming_.size() && coming_[arrived].first <= now_us; ++arrived) {
    const std::size_t id = coming_[arrived].second;
    engine_.AddWaiting(WithLength(state, joining, id, scenario), id);
  }
}

void Forecaster::PlayStart(const EngineState& state, const Request* joining, const StepTable& table) {
  const auto scenarios = static_cast<std::size_t>(options_.scenarios);
  fewest_tokens_.assign(output_tokens_.begin(), output_tokens_.begin() + static_cast<std::ptrdiff_t>(count_));
  for (std::size_t at = count_; at < output_tokens_.size(); ++at) {
    fewest_tokens_[at % count_] = std::min(fewest_tokens_[at % count_], output_tokens_[at]);
  }
  engine_.Reset(state.limits);
  for (std::size_t id = 0; id < state.running.size(); ++id) {
    engine_.AddRunning(WithLength(state, joining, id, 0), id);
  }
  // Those on their way come in when they are here.
  coming_.clear();
  for (std::size_t id = state.running.size(); id < count_; ++id) {
    const double transfer_us = RequestAt(state, joining, id).transfer_us;
    if (transfer_us > 0) {
      coming_.emplace_back(transfer_us, id);
    } else {
      engine_.AddWaiting(WithLength(state, joining, id, 0), id);
    }
  }
  std::ranges::sort(coming_);
  double now_us = state.step_in_flight_us;
  std::size_t arrived = 0;
  for (std::int64_t steps = 0;; ++steps) {
    start_.engine = engine_;
    start_.now_us = now_us;
    start_.arrived = arrived;
    start_.steps = steps;
    if (steps >= options_.max_steps) return;
    Arrive(state, joining, 0, now_us, arrived);
    engine_.Schedule();
    if (!engine_.anything_scheduled() || engine_.EndsOrRepeats(fewest_tokens_)) return;
    now_us += RunSteps(table, kNever, static_cast<double>(scenarios));
    for (const Engine::Event& event : events_) {
      for (std::size_t s = 0; s < scenarios; ++s) first_us_[s * count_ + event.id] = now_us;
    }
  }
}

Forecaster::Played Forecaster::Play(const EngineState& state, const Request* joining, const StepTable& table,
                                    std::size_t scenario) {
  double* first_us = first_us_.data() + scenario * count_;
  double* last_us = last_us_.data() + scenario * count_;
  engine_ = start_.engine;
  engine_.SetOutputTokens(std::span(output_tokens_).subspan(scenario * count_, count_));
  std::size_t arrived = start_.arrived;
  double now_us = start_.now_us;
  std::size_t left = count_;
  for (std::int64_t steps = start_.steps; left > 0 && steps < options_.max_steps; ++steps) {
    Arrive(state, joining, scenario, now_us, arrived);
    engine_.Schedule();
    if (!engine_.anything_scheduled()) break;  // the first one never fits
    if (arrived == coming_.size() && engine_.OnlyDecodes()) return {now_us, AddPhases(options_.max_steps - steps)};
    now_us += RunSteps(table, arrived < coming_.size() ? coming_[arrived].first - now_us : kNever, 1);
    for (const Engine::Event& event : events_) {
      if (event.first_token) first_us[event.id] = now_us;
      if (event.ended) {
        last_us[event.id] = now_us;
        --left;
      }
    }
  }
  return {now_us, 0};
}

// As many equal steps as possible at once, not much past `until_us` from now;
// how long they take. Context grows by one a step, and latency with it nearly
// linearly: the mean of the first and the last stands for all.
double Forecaster::RunSteps(const StepTable& table, double until_us, double scenarios) {
  engine_.ChunksOf(chunks_);
  const StepLoad load{chunks_, engine_.decoding(), engine_.mean_context(),
                      static_cast<double>(engine_.longest_context())};
  const StepLatency first = table.Latency(load);
  double each_us = first.p50_us;
  std::int64_t steps = 1 + engine_.Repeats();
  if (steps > 1) {
    if (until_us < each_us * static_cast<double>(steps))
      steps = std::max<std::int64_t>(static_cast<std::int64_t>(until_us / each_us), 1);
    StepLoad last = load;
    const double grown = static_cast<double>(steps - 1) * engine_.tokens_per_step();
    last.mean_context += grown;
    last.longest_context += grown;
    each_us = (each_us + table.Latency(last).p50_us) / 2;
  }
  const double us = each_us * static_cast<double>(steps);
  sigma_us_ += first.sigma * us * scenarios;
  busy_us_ += us * scenarios;
  engine_.Complete(steps, events_);
  return us;
}

// The sequences that run end one after the other, those with the least output
// left first: what each step has needs no playing.
std::size_t Forecaster::AddPhases(std::int64_t most) {
  left_.clear();
  std::int64_t context = 0;  // of all that are left
  for (const Engine::Entry& entry : engine_.running()) {
    const Sequence& sequence = entry.sequence;
    left_.push_back({engine_.StepsLeft(sequence), sequence.computed_tokens + 1, 0, entry.id});
    context += left_.back().context;
  }
  std::ranges::sort(left_, [](const Left& a, const Left& b) { return a.steps < b.steps; });
  std::int64_t longest = 0;
  for (Left& each : std::views::reverse(left_)) each.longest = longest = std::max(longest, each.context);
  std::size_t phases = 0;
  std::int64_t played = 0;
  for (std::size_t i = 0; i < left_.size() && static_cast<std::int64_t>(phases) < most; ++phases) {
    const std::int64_t steps = left_[i].steps - played;
    const auto sequences = static_cast<std::int64_t>(left_.size() - i);
    const double each = engine_.tokens_per_step();
    const double mean = static_cast<double>(context) / static_cast<double>(sequences);
    for (const std::int64_t further : {std::int64_t{0}, steps - 1}) {
      const double grown = static_cast<double>(played + further) * each;
      sequences_.push_back(static_cast<std::int32_t>(sequences));
      mean_.push_back(static_cast<float>(mean + grown));
      longest_.push_back(static_cast<float>(static_cast<double>(left_[i].longest) + grown));
    }
    played += steps;
    std::size_t ends = 0;
    for (; i < left_.size() && left_[i].steps == played; ++i, ++ends) {
      context -= left_[i].context;
      ended_.push_back(left_[i].id);
    }
    phases_.push_back({steps, ends});
  }
  return phases;
}

void Forecaster::FinishPhases(const StepTable& table) {
  p50_us_.resize(sequences_.size());
  sigma_.resize(sequences_.size());
  table.DecodeLatencies(sequences_, mean_, longest_, p50_us_, sigma_);
  std::size_t p = 0;
  std::size_t ended = 0;
  for (std::size_t scenario = 0; scenario < played_.size(); ++scenario) {
    double now_us = played_[scenario].now_us;
    for (const std::size_t end = p + played_[scenario].phases; p < end; ++p) {
      const double each_us = (static_cast<double>(p50_us_[2 * p]) + static_cast<double>(p50_us_[2 * p + 1])) / 2;
      const double us = each_us * static_cast<double>(phases_[p].steps);
      sigma_us_ += static_cast<double>(sigma_[2 * p]) * us;
      busy_us_ += us;
      now_us += us;
      for (std::size_t i = 0; i < phases_[p].ends; ++i) last_us_[scenario * count_ + ended_[ended++]] = now_us;
    }
  }
}

void Forecaster::Collect(const EngineState& state, const Request* joining) {
  const auto scenarios = static_cast<std::size_t>(options_.scenarios);
  const double sigma = busy_us_ > 0 ? sigma_us_ / busy_us_ : 0;
  forecasts_.resize(count_);
  for (std::size_t id = 0; id < count_; ++id) {
    const Request& r = RequestAt(state, joining, id);
    const bool started = r.sequence.generated_tokens > 0;
    LatencyForecast::Scenarios ttft, tpot, e2e;
    for (std::size_t at = id; at < scenarios * count_; at += count_) {
      if (!started) ttft.push_back(r.since_arrival_us + first_us_[at]);
      e2e.push_back(r.since_arrival_us + last_us_[at]);
      const double since_first_us = started                       ? r.since_first_token_us + last_us_[at]
                                    : std::isfinite(last_us_[at]) ? last_us_[at] - first_us_[at]
                                                                  : kNever;
      tpot.push_back(since_first_us / static_cast<double>(std::max<std::int64_t>(output_tokens_[at] - 1, 1)));
    }
    forecasts_[id] = {{std::move(ttft), sigma}, {std::move(tpot), sigma}, {std::move(e2e), sigma}};
  }
}

absl::StatusOr<std::span<const RequestForecast>> Forecaster::Forecast(const EngineState& state, const Request* joining,
                                                                      const StepTable& table,
                                                                      const OutputLengths& lengths) {
  GPUETA_RETURN_IF_ERROR(Check(state));
  if (joining != nullptr) GPUETA_RETURN_IF_ERROR(CheckRequest("waiting", state.waiting.size(), *joining, false));
  if (options_.scenarios < 1 || options_.scenarios > kMostScenarios) {
    return FieldError("scenarios", fmt::format("{} is not from 1 to {}", options_.scenarios, kMostScenarios));
  }
  count_ = state.running.size() + state.waiting.size() + (joining == nullptr ? 0 : 1);
  const auto scenarios = static_cast<std::size_t>(options_.scenarios);
  DrawLengths(state, joining, lengths);
  first_us_.assign(scenarios * count_, kNever);
  last_us_.assign(scenarios * count_, kNever);
  sigma_us_ = busy_us_ = 0;
  played_.clear();
  phases_.clear();
  ended_.clear();
  sequences_.clear();
  mean_.clear();
  longest_.clear();
  PlayStart(state, joining, table);
  for (std::size_t s = 0; s < scenarios; ++s) played_.push_back(Play(state, joining, table, s));
  FinishPhases(table);
  Collect(state, joining);
  return std::span<const RequestForecast>(forecasts_);
}

LatencyForecast::LatencyForecast(Scenarios us, double sigma) : us_(std::move(us)), sigma_(sigma) {
  std::ranges::sort(us_);
}

// Scenario i stands for quantile (i + ½)/n.
double LatencyForecast::OfLengths(double quantile) const {
  const double x =
      std::clamp(quantile * static_cast<double>(us_.size()) - 0.5, 0.0, static_cast<double>(us_.size() - 1));
  const auto below = static_cast<std::size_t>(x);
  const auto above = std::min(below + 1, us_.size() - 1);
  const double share = x - static_cast<double>(below);
  if (share == 0 || us_[below] == us_[above]) return us_[below];  // both may be infinite
  return us_[below] + share * (us_[above] - us_[below]);
}

double LatencyForecast::Median() const { return us_.empty() ? 0 : OfLengths(0.5); }

double LatencyForecast::Quantile(const QuantilePoint& at) const {
  if (us_.empty()) return 0;
  const double median = OfLengths(0.5);
  const double spread = OfLengths(at.quantile);
  if (!std::isfinite(spread) || !std::isfinite(median) || median <= 0) return spread;
  const double ln = std::hypot(std::log(spread / median), sigma_ * at.z);
  return median * std::exp(at.quantile < 0.5 ? -ln : ln);
}

void LatencyForecast::AppendLn(std::span<const QuantilePoint> at, std::vector<double>& ln) const {
  if (us_.empty()) return;
  const auto ln_of = [](double us) { return us > 0 ? std::log(us) : -kNever; };
  const double median = OfLengths(0.5);
  const double ln_median = ln_of(median);
  for (const QuantilePoint& point : at) {
    const double spread = OfLengths(point.quantile);
    const double ln_spread = spread == median ? ln_median : ln_of(spread);
    if (!std::isfinite(ln_spread) || !std::isfinite(ln_median)) {
      ln.push_back(ln_spread);
      continue;
    }
    const double of_lengths = ln_spread - ln_median;
    const double of_steps = sigma_ * point.z;
    const double distance = std::sqrt(of_lengths * of_lengths + of_steps * of_steps);
    ln.push_back(point.quantile < 0.5 ? ln_median - distance : ln_median + distance);
  }
}

absl::StatusOr<std::vector<RequestForecast>> Forecast(const EngineState& state, const StepTable& table,
                                                      const OutputLengths& lengths, const ScheduleOptions& options) {
  Forecaster forecaster(options);
  GPUETA_ASSIGN_OR_RETURN(const auto forecasts, forecaster.Forecast(state, nullptr, table, lengths));
  return std::vector<RequestForecast>(forecasts.begin(), forecasts.end());
}

}  // namespace gpueta
