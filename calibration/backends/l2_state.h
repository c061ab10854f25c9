// What a device's cache holds when a kernel that is timed alone starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpueta {

enum class L2State : std::uint8_t {
  kAsInModel,  // weights cold (other layers ran since), activations warm
  kWarm,       // everything that fits, from the run before
  kFlushed,    // nothing
};

// "model", "warm", "flushed".
constexpr std::string_view Name(L2State state) {
  switch (state) {
    case L2State::kAsInModel: return "model";
    case L2State::kWarm: return "warm";
    case L2State::kFlushed: return "flushed";
  }
  return "";
}
// nullopt for any other text.
constexpr std::optional<L2State> ParseL2State(std::string_view name) {
  for (const L2State state : {L2State::kAsInModel, L2State::kWarm, L2State::kFlushed}) {
    if (name == Name(state)) return state;
  }
  return std::nullopt;
}

}  // namespace gpueta
