// What a latency includes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpueta {

// Latencies of different kinds are never compared or mixed; see launch_floor.h
// for the conversion.
enum class Timing : std::uint8_t {
  kEager,   // one framework call, host launch included
  kGraph,   // replayed from a CUDA graph: a small gap remains
  kKernel,  // device time of the kernel alone
};

inline constexpr std::array kAllTimings = {Timing::kEager, Timing::kGraph, Timing::kKernel};

std::string_view Name(Timing timing);
std::optional<Timing> ParseTiming(std::string_view name);

}  // namespace gpueta
