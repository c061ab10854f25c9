// What of a device can be restricted, and how far.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpueta {

enum class Knob : std::uint8_t {
  kUnits,          // SMs or cores that the work may use
  kCoreClock,      // MHz
  kMemoryClock,    // MHz
  kContention,     // share of time in which other units stream through memory
  kCacheSetAside,  // share of the last-level cache that the work may not use
};
inline constexpr Knob kKnobs[] = {Knob::kUnits, Knob::kCoreClock, Knob::kMemoryClock, Knob::kContention,
                                  Knob::kCacheSetAside};
inline constexpr std::size_t kKnobCount = std::size(kKnobs);
std::string_view Name(Knob knob);

// Values least, least + step, … below most, and most; or those listed, from least to
// most, where a device has no steps.
struct KnobRange {
  double least = 0;
  double most = 0;
  double step = 1;
  std::vector<double> listed = {};
};

// One value a knob; of knobs that a device does not have, whatever it is.
using Configuration = std::array<double, kKnobCount>;
inline double& At(Configuration& configuration, Knob knob) { return configuration[static_cast<std::size_t>(knob)]; }
inline double At(const Configuration& configuration, Knob knob) {
  return configuration[static_cast<std::size_t>(knob)];
}

// The knobs that a device has.
struct ControlSpace {
  std::array<std::optional<KnobRange>, kKnobCount> ranges;

  const std::optional<KnobRange>& range(Knob knob) const { return ranges[static_cast<std::size_t>(knob)]; }
  std::optional<KnobRange>& range(Knob knob) { return ranges[static_cast<std::size_t>(knob)]; }
};

// The device as it is when nothing is restricted: contention and set-aside at
// their least, all else at its most.
Configuration Unrestricted(const ControlSpace& space);

// Each value is one of its knob's, and contention leaves units to contend from.
bool IsPossible(const ControlSpace& space, const Configuration& configuration);

// The values a knob can take, the least first.
std::vector<double> ValuesOf(const KnobRange& range);

// How far each knob is turned down, in the units that rates depend on nearly
// linearly in ln: 0 unrestricted, negative beyond. ln of the share of units and
// clocks and of the cache that is left; minus the contention.
std::array<double, kKnobCount> TurnedDown(const ControlSpace& space, const Configuration& configuration);

// For people and logs, e.g. "units 1 of 2, contention 0.35".
std::string Describe(const ControlSpace& space, const Configuration& configuration);

}  // namespace gpueta
