#include "core/device/relatedness.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace gpueta {
namespace {

// Watts a fp32 TFLOPS: medians of the consumer cards in gpu_specs.csv.
struct Generation {
  double capability;  // smallest
  double place;       // along the line of generations
  double watts_per_tflops;
};
constexpr std::array kGenerations = {
    Generation{0, -0.5, 27.4},   // Maxwell and older
    Generation{6.0, 0, 27.4},    // Pascal
    Generation{7.0, 1, 24.4},    // Volta
    Generation{7.5, 1.5, 24.4},  // Turing
    Generation{8.0, 2, 12.6},    // Ampere
    Generation{8.9, 3, 6.9},     // Ada Lovelace
    Generation{9.0, 3, 6.9},     // Hopper
    Generation{10.0, 4, 7.2},    // Blackwell
};

const Generation& GenerationOf(const DeviceSpec& spec) {
  const Generation* found = &kGenerations.front();
  for (const Generation& generation : kGenerations) {
    if (spec.compute_capability >= generation.capability - 1e-6) found = &generation;
  }
  return *found;
}

bool HasStackedMemory(const DeviceSpec& spec) { return std::string_view(spec.memory_type).starts_with("HBM"); }

bool UsesTensorCores(const DeviceSpec& spec, DType dtype) {
  return PeakTflops(spec, dtype) > 1.5 * PeakTflops(spec, DType::kFp32);
}

// Power falls with a high power of the clock near the top, and tensor cores do
// more for each watt.
constexpr double kVectorExponent = 0.55;
constexpr double kTensorExponent = 0.36;
constexpr double kLeastShare = 0.2;

// Distances that count as one step: half a generation, the kind of memory, and
// a factor of two in what an SM computes or moves in a cycle; caches differ
// more and matter less. P100 and V100, a generation apart, depart from the
// others in opposite directions.
constexpr double kStepsOfGeneration = 2;
constexpr double kStepOfRates = 0.7;
constexpr double kStepOfCache = 2.0;

}  // namespace

double SustainedShare(const DeviceSpec& spec, DType dtype) {
  // Stacked memory comes with boards that are made for sustained load.
  if (IsCpu(spec) || HasStackedMemory(spec) || !(spec.tdp_w > 0) || !(spec.fp32_tflops > 0)) return 1;
  const double ratio = spec.tdp_w / spec.fp32_tflops / GenerationOf(spec).watts_per_tflops;
  const double exponent = UsesTensorCores(spec, dtype) ? kTensorExponent : kVectorExponent;
  return std::clamp(std::pow(ratio, exponent), kLeastShare, 1.0);
}

double Relatedness(const DeviceSpec& a, const DeviceSpec& b, DType dtype) {
  struct Point {
    double generation, stacked, flops_per_cycle, bytes_per_cycle, cache, clock;
  };
  const auto point = [&](const DeviceSpec& sheet) {
    const DeviceSpec spec = WithInferredCells(sheet);
    const auto sms = static_cast<double>(spec.sm_count);
    return Point{.generation = kStepsOfGeneration * GenerationOf(spec).place,
                 .stacked = HasStackedMemory(spec) ? 1.0 : 0.0,
                 .flops_per_cycle = std::log(PeakTflops(spec, dtype) / sms / spec.boost_clock_mhz) / kStepOfRates,
                 .bytes_per_cycle = std::log(spec.mem_bandwidth_gb_s / sms) / kStepOfRates,
                 .cache = std::log(spec.l2_mb / sms) / kStepOfCache,
                 .clock = std::log(spec.boost_clock_mhz) / kStepOfRates};
  };
  if (IsCpu(a) != IsCpu(b)) return 0;
  const Point p = point(a), q = point(b);
  double squares = 0;
  for (const auto coordinate : {&Point::generation, &Point::stacked, &Point::flops_per_cycle, &Point::bytes_per_cycle,
                                &Point::cache, &Point::clock}) {
    squares += (p.*coordinate - q.*coordinate) * (p.*coordinate - q.*coordinate);
  }
  return std::exp(-squares / 2);
}

}  // namespace gpueta
