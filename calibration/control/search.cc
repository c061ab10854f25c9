#include "calibration/control/search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "calibration/control/linear_belief.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using Belief = LinearBelief<kKnobCount>;
using KnobVector = Belief::Vector;

// What turning a knob down by one unit of TurnedDown takes off a rate's ln,
// before anything is measured: mean and deviation. Arithmetic goes with units
// and core clock; a few units already use most of the bandwidth; the memory
// clock and contention move bandwidth alone; a launch is partly the host's.
struct Prior {
  KnobVector means;
  KnobVector deviations;
};
Prior PriorOf(Limit limit) {
  //        units  core clock  memory clock  contention  cache set aside
  switch (limit) {
    case Limit::kCompute: return {{1, 1, 0, 0, 0}, {0.15, 0.15, 0.1, 0.1, 0.05}};
    case Limit::kMemory: return {{0.4, 0.1, 1, 1, 0}, {0.3, 0.2, 0.15, 0.5, 0.1}};
    case Limit::kCache: return {{0, 0, 0, 0, 1}, {0.1, 0.05, 0.05, 0.2, 0.15}};
    case Limit::kLaunch: return {{0, 0.5, 0, 0, 0}, {0.3, 0.3, 0.1, 0.1, 0.05}};
  }
  return {};
}

// Of a difference of two probed rates, in ln.
constexpr double kProbeNoise = 0.02;
// The relation is a line only near by: so much more noise for each unit of
// distance from the best probe.
constexpr double kCurvature = 0.2;

// A configuration counts as nearer only if its distance is expected to be
// smaller by this.
constexpr double kWorthAProbe = 0.002;

KnobVector Minus(const KnobVector& a, const KnobVector& b) {
  KnobVector difference{};
  for (std::size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return difference;
}

double Length(const KnobVector& v) {
  double squares = 0;
  for (const double x : v) squares += x * x;
  return std::sqrt(squares);
}

// Where the rates of the known classes go from one probe on.
class Outlook {
 public:
  Outlook(const ControlSpace& space, std::span<const ClassGoal> goals, std::span<const Probe> probes, const Probe& from)
      : space_(&space), from_(TurnedDown(space, from.configuration)) {
    for (const ClassGoal& goal : goals) {
      const std::optional<double> here = LogRate(from.rates, goal.kernels);
      if (!goal.log_rate.has_value() || !here.has_value()) continue;
      const Prior prior = PriorOf(goal.kernels.limit);
      Class& added =
          classes_.emplace_back(Class{goal.weight, *goal.log_rate - *here, Belief(prior.means, prior.deviations)});
      for (const Probe& probe : probes) {
        const std::optional<double> there = LogRate(probe.rates, goal.kernels);
        const KnobVector step = Minus(TurnedDown(space, probe.configuration), from_);
        const double far = Length(step);
        if (!there.has_value() || far == 0) continue;
        const double noise = kProbeNoise * kProbeNoise + std::pow(kCurvature * far * far, 2);
        added.rate.Observe(step, *there - *here, noise);
      }
    }
  }

  double ExpectedDistance(const Configuration& configuration) const {
    const KnobVector step = Minus(TurnedDown(*space_, configuration), from_);
    double squares = 0;
    double weights = 0;
    for (const Class& c : classes_) {
      squares += c.weight * std::pow(c.to_go - c.rate.At(step).mean, 2);
      weights += c.weight;
    }
    return weights > 0 ? std::sqrt(squares / weights) : 0;
  }

 private:
  struct Class {
    double weight = 0;
    double to_go = 0;  // ln of goal over rate
    Belief rate;       // change of the rate's ln with the step
  };
  const ControlSpace* space_;
  KnobVector from_;
  std::vector<Class> classes_;
};

// Pairs of knobs, one after the other, until nothing is nearer: contention alone
// is impossible while all units work, and units trade with clocks.
Configuration Nearest(const ControlSpace& space, const Outlook& outlook, const Configuration& start) {
  struct Best {
    Configuration configuration;
    double distance = 0;
  };
  Best best{start, outlook.ExpectedDistance(start)};
  const auto consider = [&](const Configuration& candidate) {
    if (!IsPossible(space, candidate)) return;
    const double distance = outlook.ExpectedDistance(candidate);
    if (distance < best.distance - kWorthAProbe * 1e-3) best = {candidate, distance};
  };
  const auto scan = [&](Knob knob, Configuration at, const auto& each) {
    if (!space.range(knob).has_value()) return;
    for (const double value : ValuesOf(*space.range(knob))) {
      At(at, knob) = value;
      each(at);
    }
  };
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    const double before = best.distance;
    for (const Knob first : kKnobs) {
      scan(first, best.configuration, [&](const Configuration& at) {
        consider(at);
        for (const Knob second : kKnobs) {
          if (second > first) scan(second, at, consider);
        }
      });
    }
    if (best.distance >= before) break;
  }
  return best.configuration;
}

bool Probed(const ControlSpace& space, std::span<const Probe> probes, const Configuration& configuration) {
  constexpr double kSame = 1e-9;
  const KnobVector turned = TurnedDown(space, configuration);
  return std::ranges::any_of(probes, [&](const Probe& probe) {
    return Length(Minus(TurnedDown(space, probe.configuration), turned)) < kSame;
  });
}

}  // namespace

absl::StatusOr<SearchResult> FindConfiguration(const ControlSpace& space, std::span<const ClassGoal> goals,
                                               Probe unrestricted, const ProbeDevice& probe,
                                               const SearchPolicy& policy) {
  SearchResult result;
  result.probes.push_back(std::move(unrestricted));
  ControlSpace uncontended = space;
  uncontended.range(Knob::kContention).reset();
  while (result.probes.size() < policy.probes) {
    const Probe& best = result.probes[result.nearest];
    const double distance = Distance(goals, best.rates);
    if (distance <= policy.good_enough) break;
    const Outlook outlook(space, goals, result.probes, best);
    const auto worth_a_probe = [&](const Configuration& next) {
      return !Probed(space, result.probes, next) && outlook.ExpectedDistance(next) <= distance - kWorthAProbe;
    };
    // What bandwidth fewer units leave is known least: contention comes after it
    // was seen.
    Configuration next = Nearest(result.probes.size() == 1 ? uncontended : space, outlook, best.configuration);
    if (!worth_a_probe(next)) next = Nearest(space, outlook, best.configuration);
    if (!worth_a_probe(next)) break;
    Probe probed{.configuration = next};
    GPUETA_ASSIGN_OR_RETURN(probed.rates, probe(next));
    const bool nearer = Distance(goals, probed.rates) < distance;
    result.probes.push_back(std::move(probed));
    if (nearer) result.nearest = result.probes.size() - 1;
  }
  return result;
}

}  // namespace gpueta
