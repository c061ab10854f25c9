#include "calibration/control/emulate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "calibration/control/elasticities.h"
#include "core/base/errors.h"
#include "core/device/catalogue.h"
#include "core/predict/compose.h"

namespace gpueta {
namespace {

constexpr double kZ90 = 1.2816;
constexpr double kZ99 = 2.3263;

// Of a rate in ln, measured twice; a launch is too short to be known as well.
constexpr double kRateNoise = 0.02;
constexpr double kLaunchNoise = 0.1;
// Of a rate that one of the sides does not know: a factor of two either way.
constexpr double kUnknownRate = 0.7;

// What latencies on two devices with the same rates still differ by, in ln. On
// processors of the same make: measured, docs/accuracy.md. On others: a MAPE of
// 14.2 %, which "local zero-shot" reports for 60 vision models on 21 GPUs, is
// 1.25 times as much in standard deviations.
constexpr double kSameMakeSpread = 0.05;
constexpr double kOtherMakeSpread = 0.18;

// One kind of contention stands for any: traffic that also fills the caches costs
// models that live in them up to 12 % more (docs/accuracy.md).
constexpr double kContentionSpread = 0.08;

// A model measured while something else kept the host from its configuration.
constexpr double kDisturbedSpread = 0.1;

constexpr std::string_view kEstimator = "emulation";

// The host as it was, whichever way the scope is left.
class RestoredOnExit {
 public:
  explicit RestoredOnExit(DeviceControl& control) : control_(&control) {}
  ~RestoredOnExit() {
    if (control_ != nullptr) control_->Restore().IgnoreError();  // the first error is what counts
  }
  RestoredOnExit(const RestoredOnExit&) = delete;
  RestoredOnExit& operator=(const RestoredOnExit&) = delete;
  absl::Status Now() { return std::exchange(control_, nullptr)->Restore(); }

 private:
  DeviceControl* control_;
};

double Square(double x) { return x * x; }

bool SameMake(const DeviceSpec& a, const DeviceSpec& b) {
  return !a.name.empty() && a.name == b.name && a.architecture == b.architecture;
}

absl::StatusOr<DeviceRates> RatesNow(DeviceControl& control, Backend& backend, const MicrosecondClock& clock) {
  DeviceRates rates;
  GPUETA_ASSIGN_OR_RETURN(rates.spec, control.MeasureSpec());
  GPUETA_ASSIGN_OR_RETURN(rates.launch_us, MeasureLaunchUs(backend, clock));
  return rates;
}

// A model in one configuration: each distinct kernel's mean latency.
struct ModelRun {
  DeviceRates rates;
  DeviceRates afterwards;
  MeasuredGraph graph;
  std::map<std::string, MeasuredKernel> kernels;  // by description
};

absl::StatusOr<ModelRun> RunModel(DeviceControl& control, const Probe& probe, std::span<const Kernel> kernels,
                                  const GraphPolicy& policy, const MicrosecondClock& clock) {
  ModelRun run{.rates = probe.rates};
  GPUETA_ASSIGN_OR_RETURN(Backend * backend, control.Apply(probe.configuration));
  GPUETA_ASSIGN_OR_RETURN(run.graph, MeasureGraph(*backend, kernels, policy, clock));
  GPUETA_ASSIGN_OR_RETURN(run.afterwards, RatesNow(control, *backend, clock));
  for (MeasuredKernel& kernel : MeanOfOccurrences(*backend, kernels, run.graph)) {
    run.kernels.emplace(Describe(kernel.measurement.kernel), std::move(kernel));
  }
  return run;
}

KernelClass ClassOf(Limit limit, DType dtype) { return {limit, limit == Limit::kCompute ? dtype : DType::kFp32}; }

ByLimit RateChange(const DeviceRates& from, const DeviceRates& to, DType dtype) {
  ByLimit change{};
  for (std::size_t i = 0; i < kLimitCount; ++i) {
    const KernelClass kernels = ClassOf(kLimits[i], dtype);
    const auto before = LogRate(from, kernels);
    const auto after = LogRate(to, kernels);
    if (before.has_value() && after.has_value()) change[i] = *after - *before;
  }
  return change;
}

LimitResiduals ResidualsOf(std::span<const ClassGoal> goals, const DeviceRates& reached, DType dtype) {
  LimitResiduals residuals;
  for (std::size_t i = 0; i < kLimitCount; ++i) {
    const KernelClass kernels = ClassOf(kLimits[i], dtype);
    const auto goal = std::ranges::find(goals, kernels, &ClassGoal::kernels);
    const auto rate = LogRate(reached, kernels);
    const bool known = goal != goals.end() && goal->log_rate.has_value() && rate.has_value();
    residuals[i].mean = known ? *goal->log_rate - *rate : 0;
    const double noise = kLimits[i] == Limit::kLaunch ? kLaunchNoise : kRateNoise;
    residuals[i].variance = Square(known ? noise : kUnknownRate);
  }
  return residuals;
}

// The probes nearest to the chosen one.
std::vector<const Probe*> NeighboursOf(const ControlSpace& space, const SearchResult& found, std::size_t count) {
  const auto chosen = TurnedDown(space, found.probes[found.nearest].configuration);
  std::vector<std::pair<double, const Probe*>> by_distance;
  for (std::size_t i = 0; i < found.probes.size(); ++i) {
    if (i == found.nearest) continue;
    const auto turned = TurnedDown(space, found.probes[i].configuration);
    double squares = 0;
    for (std::size_t k = 0; k < kKnobCount; ++k) squares += Square(turned[k] - chosen[k]);
    by_distance.emplace_back(squares, &found.probes[i]);
  }
  std::ranges::sort(by_distance);
  std::vector<const Probe*> neighbours;
  for (const auto& [distance, probe] : by_distance) {
    if (neighbours.size() < count) neighbours.push_back(probe);
  }
  return neighbours;
}

Neighbour NeighbourOf(const ModelRun& there, const ModelRun& here, const std::string& kernel, DType dtype) {
  const TimingResult& a = here.kernels.at(kernel).timing;
  const TimingResult& b = there.kernels.at(kernel).timing;
  return {.rate_change = RateChange(here.rates, there.rates, dtype),
          .latency_change = std::log(b.latency_us / a.latency_us),
          .noise = std::sqrt(Square(a.relative_error) + Square(b.relative_error) + Square(kRateNoise))};
}

// Rates that differ by more before and after a model ran were not those it ran at.
constexpr double kMostChange = 0.08;

// Of the rates while the model ran, in words; empty if they stayed. Launches are
// too short to tell.
std::string ChangeOf(std::span<const ClassGoal> goals, const ModelRun& run) {
  for (const ClassGoal& goal : goals) {
    const auto before = LogRate(run.rates, goal.kernels);
    const auto after = LogRate(run.afterwards, goal.kernels);
    if (goal.kernels.limit == Limit::kLaunch || !before.has_value() || !after.has_value()) continue;
    if (const double change = *after - *before; std::abs(change) > kMostChange) {
      return fmt::format("the machine was busy: {} changed by {:+.0f}% while the model ran", Describe(goal.kernels),
                         100 * std::expm1(change));
    }
  }
  return "";
}

Quantiles Spread(double p50, double deviation) {
  return {p50, p50 * std::exp(kZ90 * deviation), p50 * std::exp(kZ99 * deviation)};
}

// Of a perfect kernel, between one device and another.
ByLimit SharesOnTheWay(const Kernel& kernel, const DeviceRates& from, const DeviceRates& to) {
  ByLimit shares = ShareOfEachLimit(kernel, from);
  const ByLimit there = ShareOfEachLimit(kernel, to);
  for (std::size_t i = 0; i < kLimitCount; ++i) shares[i] = (shares[i] + there[i]) / 2;
  return shares;
}

Bound BoundOf(const ByLimit& shares) {
  switch (kLimits[static_cast<std::size_t>(std::ranges::max_element(shares) - shares.begin())]) {
    case Limit::kCompute: return Bound::kCompute;
    case Limit::kMemory:
    case Limit::kCache: return Bound::kMemory;
    case Limit::kLaunch: return Bound::kLaunch;
  }
  return Bound::kCompute;
}

// From the runs to the estimate. The first run is that of the chosen
// configuration.
GraphEstimate EstimateOf(std::span<const Kernel> kernels, std::span<const ModelRun> runs,
                         std::span<const ClassGoal> goals, const DeviceRates& target, double unexplained) {
  const ModelRun& here = runs.front();
  std::vector<std::string> order;
  std::map<std::string, GraphPart> parts;
  for (const Kernel& kernel : kernels) {
    const std::string description = Describe(kernel);
    GraphPart& part = parts[description];
    if (part.count++ == 0) {
      part.kernel = kernel;
      order.push_back(description);
    }
  }
  GraphEstimate estimate{.estimator = std::string(kEstimator)};
  double measured_us = 0;
  double corrected_us = 0;
  double shared_us = 0;  // Σ us · standard deviation of what all kernels share
  ErrorSum own_us;
  for (const std::string& description : order) {
    GraphPart& part = parts[description];
    const TimingResult& timing = here.kernels.at(description).timing;
    const ByLimit shares = SharesOnTheWay(part.kernel, here.rates, target);
    std::vector<Neighbour> neighbours;
    for (const ModelRun& there : runs.subspan(1)) {
      neighbours.push_back(NeighbourOf(there, here, description, part.kernel.dtype));
    }
    const Carried carried =
        Carry(ElasticitiesOf(shares, neighbours), ResidualsOf(goals, here.rates, part.kernel.dtype));
    const double own = carried.own_variance + Square(timing.relative_error);
    const double shared = carried.shared_variance + Square(unexplained);
    const double us = timing.latency_us * std::exp(carried.change);
    part.estimate = {.latency_us = Spread(us, std::sqrt(own + shared)),
                     .provenance = Provenance::kEmulated,
                     .estimator = kEstimator,
                     .bound = BoundOf(shares)};
    const double count_us = static_cast<double>(part.count) * us;
    measured_us += static_cast<double>(part.count) * timing.latency_us;
    corrected_us += count_us;
    shared_us += count_us * std::sqrt(shared);
    own_us.Add(part.kernel, count_us * std::sqrt(own));
    estimate.parts.push_back(part);
  }
  // Back to back the kernels take a little more than one by one.
  const double together = here.graph.total.latency_us / measured_us;
  const double deviation = std::hypot(shared_us, own_us.Combined()) / corrected_us;
  estimate.latency_us = Spread(corrected_us * together, deviation);
  estimate.provenance[Provenance::kEmulated] = 1;
  return estimate;
}

std::vector<ClassMatch> MatchesOf(std::span<const ClassGoal> goals, const DeviceRates& host,
                                  const DeviceRates& reached) {
  const auto rate_of = [](const std::optional<double>& log_rate) { return log_rate ? std::exp(*log_rate) : 0; };
  std::vector<ClassMatch> matches;
  for (const ClassGoal& goal : goals) {
    matches.push_back({.kernels = goal.kernels,
                       .weight = goal.weight,
                       .host = rate_of(LogRate(host, goal.kernels)),
                       .target = rate_of(goal.log_rate),
                       .reached = rate_of(LogRate(reached, goal.kernels))});
  }
  return matches;
}

// Beyond this a class counts as not reached, if it limits so much of the model.
constexpr double kWorthAWarning = 0.1;
constexpr double kWeightWorthAWarning = 0.05;

std::vector<std::string> WarningsOf(std::span<const ClassMatch> classes, const MeasuredGraph& graph,
                                    const std::string& disturbance) {
  std::vector<std::string> warnings;
  for (const ClassMatch& match : classes) {
    if (match.weight < kWeightWorthAWarning) continue;
    if (match.target == 0) {
      warnings.push_back(fmt::format("{}: unknown of the target; the interval allows for it", Describe(match.kernels)));
    } else if (const double off = match.reached / match.target - 1; std::abs(off) > kWorthAWarning) {
      warnings.push_back(
          fmt::format("{}: the host comes to {:+.0f}% of the target and no nearer; what is left was "
                      "corrected by elasticities",
                      Describe(match.kernels), 100 * off));
    }
  }
  if (!disturbance.empty()) warnings.push_back(disturbance);
  if (graph.total.disturbed) warnings.emplace_back("the machine was busy: run again for a narrower interval");
  return warnings;
}

}  // namespace

absl::StatusOr<Emulation> Emulate(DeviceControl& control, const DeviceRates& target, std::span<const Kernel> kernels,
                                  const EmulationOptions& options, const MicrosecondClock& clock) {
  RestoredOnExit restored(control);
  const ControlSpace& space = control.space();
  const auto report = [&](double share, const std::string& what) {
    if (options.progress) options.progress(share, what);
  };
  std::size_t probed = 0;
  const ProbeDevice probe = [&](const Configuration& configuration) -> absl::StatusOr<DeviceRates> {
    const double share = static_cast<double>(probed++) / static_cast<double>(options.search.probes + 2);
    report(share, "rates with " + Describe(space, configuration));
    GPUETA_ASSIGN_OR_RETURN(Backend * backend, control.Apply(configuration));
    return RatesNow(control, *backend, clock);
  };
  Probe unrestricted{.configuration = Unrestricted(space)};
  GPUETA_ASSIGN_OR_RETURN(unrestricted.rates, probe(unrestricted.configuration));
  const std::string host = unrestricted.rates.spec.slug;
  const CatalogueEntry* listed = Catalogue::BuiltIn().Find(host);
  const std::vector<ClassGoal> goals =
      GoalsOf(kernels, target, listed == nullptr ? nullptr : &listed->spec, unrestricted.rates);
  GPUETA_ASSIGN_OR_RETURN(const SearchResult found,
                          FindConfiguration(space, goals, std::move(unrestricted), probe, options.search));
  const Probe& chosen = found.probes[found.nearest];

  Emulation result{.host = host,
                   .configuration = chosen.configuration,
                   .configuration_text = Describe(space, chosen.configuration),
                   .distance = Distance(goals, chosen.rates)};
  for (const Probe& tried : found.probes) {
    result.tried.push_back({Describe(space, tried.configuration), Distance(goals, tried.rates)});
  }
  result.classes = MatchesOf(goals, found.probes.front().rates, chosen.rates);
  constexpr double kSearched = 0.6;  // about that share of the time
  report(kSearched, "the model with " + result.configuration_text);
  std::vector<ModelRun> runs;
  GPUETA_ASSIGN_OR_RETURN(ModelRun here, RunModel(control, chosen, kernels, options.timing, clock));
  runs.push_back(std::move(here));
  std::string disturbance = control.Disturbance();
  if (disturbance.empty()) disturbance = ChangeOf(goals, runs.front());
  // What is nearer than rates are known needs no correction.
  if (result.distance > options.search.good_enough) {
    for (const Probe* neighbour : NeighboursOf(space, found, options.neighbours)) {
      report(kSearched, "the model with " + Describe(space, neighbour->configuration));
      GPUETA_ASSIGN_OR_RETURN(ModelRun there, RunModel(control, *neighbour, kernels, options.timing, clock));
      runs.push_back(std::move(there));
    }
  }
  GPUETA_RETURN_IF_ERROR(restored.Now());

  result.neighbours = runs.size() - 1;
  result.measured_us = runs.front().graph.total.latency_us;
  const double make = SameMake(chosen.rates.spec, target.spec) ? kSameMakeSpread : kOtherMakeSpread;
  const bool contended = space.range(Knob::kContention).has_value() && At(chosen.configuration, Knob::kContention) > 0;
  const double unexplained = std::hypot(make, contended ? kContentionSpread : 0.0,  //
                                        disturbance.empty() ? 0.0 : kDisturbedSpread);
  result.estimate = EstimateOf(kernels, runs, goals, target, unexplained);
  result.estimate.warnings = WarningsOf(result.classes, runs.front().graph, disturbance);
  return result;
}

}  // namespace gpueta
