#include "calibration/control/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gpueta {
namespace {

// A knob that restricts the more the higher it stands.
bool RestrictsUpwards(Knob knob) { return knob == Knob::kContention || knob == Knob::kCacheSetAside; }

constexpr double kRounding = 1e-6;  // of a step

// Whole steps before `most` is reached.
std::size_t StepsOf(const KnobRange& range) {
  return static_cast<std::size_t>(std::max(0.0, std::ceil((range.most - range.least) / range.step - kRounding)));
}

bool IsValueOf(const KnobRange& range, double value) {
  if (!range.listed.empty()) {
    return std::ranges::any_of(range.listed,
                               [&](double listed) { return std::abs(value - listed) <= kRounding * range.most; });
  }
  if (std::abs(value - range.most) <= kRounding * range.step) return true;
  const double steps = (value - range.least) / range.step;
  return std::abs(steps - std::round(steps)) <= kRounding && steps > -1 + kRounding &&
         std::round(steps) < static_cast<double>(StepsOf(range));
}

}  // namespace

std::string_view Name(Knob knob) {
  switch (knob) {
    case Knob::kUnits: return "units";
    case Knob::kCoreClock: return "core_clock_mhz";
    case Knob::kMemoryClock: return "memory_clock_mhz";
    case Knob::kContention: return "contention";
    case Knob::kCacheSetAside: return "cache_set_aside";
  }
  return "?";
}

Configuration Unrestricted(const ControlSpace& space) {
  Configuration configuration{};
  for (const Knob knob : kKnobs) {
    if (const auto& range = space.range(knob); range.has_value()) {
      At(configuration, knob) = RestrictsUpwards(knob) ? range->least : range->most;
    }
  }
  return configuration;
}

bool IsPossible(const ControlSpace& space, const Configuration& configuration) {
  for (const Knob knob : kKnobs) {
    const auto& range = space.range(knob);
    if (range.has_value() && !IsValueOf(*range, At(configuration, knob))) return false;
  }
  const auto& contention = space.range(Knob::kContention);
  const auto& units = space.range(Knob::kUnits);
  const bool contended = contention.has_value() && At(configuration, Knob::kContention) > 0;
  return !contended || (units.has_value() && At(configuration, Knob::kUnits) <= units->most - units->step);
}

std::vector<double> ValuesOf(const KnobRange& range) {
  if (!range.listed.empty()) return range.listed;
  std::vector<double> values;
  for (std::size_t step = 0; step < StepsOf(range); ++step) {
    values.push_back(range.least + static_cast<double>(step) * range.step);
  }
  values.push_back(range.most);
  return values;
}

std::array<double, kKnobCount> TurnedDown(const ControlSpace& space, const Configuration& configuration) {
  std::array<double, kKnobCount> turned{};
  for (std::size_t i = 0; i < kKnobCount; ++i) {
    const auto& range = space.ranges[i];
    if (!range.has_value()) continue;
    switch (kKnobs[i]) {
      case Knob::kUnits:
      case Knob::kCoreClock:
      case Knob::kMemoryClock: turned[i] = std::log(configuration[i] / range->most); break;
      case Knob::kContention: turned[i] = -configuration[i]; break;
      case Knob::kCacheSetAside: turned[i] = std::log1p(-configuration[i]); break;
    }
  }
  return turned;
}

std::string Describe(const ControlSpace& space, const Configuration& configuration) {
  std::string text;
  for (const Knob knob : kKnobs) {
    const auto& range = space.range(knob);
    if (!range.has_value()) continue;
    text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", Name(knob), At(configuration, knob));
    if (!RestrictsUpwards(knob)) text += fmt::format(" of {:g}", range->most);
  }
  return text;
}

}  // namespace gpueta
