// What a family form is. A form is a struct with static members only:
//
//   kParams    its parameters, with start and bounds
//   kFeatures  names of the features its residual is learnt over
//   kDims      number of dims it reads, in the op's dim order
//   template <class T> static T LatencyUs(const Machine<T>&, const T* theta, const T* dims);
//   template <class T> static void Features(const Machine<T>&, const T* dims, T* features);
//
// and, where the counts allow no other algorithm,
//
//   template <class T> static T LimitUs(const Machine<T>&, const T* theta, const T* dims);
//
// what no kernel is faster than, whatever a residual learnt elsewhere says.
// T is float where estimates are served and double where they are fitted: one
// formula for both. Both functions are branch-free.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/ops/form_math.h"
#include "core/ops/machine.h"

namespace gpueta {

// Real cards exceed the clocks and bandwidths of their data sheets by a little.
inline constexpr double kAboveDataSheet = 1.1;

// What of a device a parameter goes with, beyond the numbers of Machine: how
// parameters fitted on some devices become those of another one
// (core/profile/transfer.h).
enum class Scales : std::uint8_t {
  kShape,    // nothing: the same on every device
  kFixed,    // what a launch costs
  kCompute,  // time at the peak rate
  kMemory,   // time at the full bandwidth
  kLatency,  // clock cycles
  kFill,     // what one SM has to keep in flight
};

struct ParamSpec {
  std::string_view name;
  double start;
  double low;
  double high;
  // Fitted for each label (vector op, attention kernel, collective); otherwise
  // shared by all labels of a table.
  bool per_label = false;
  Scales scales = Scales::kShape;
};

}  // namespace gpueta
