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

#include <span>
#include <string_view>

#include "core/ops/form_math.h"
#include "core/ops/machine.h"

namespace gpueta {

// Real cards exceed the clocks and bandwidths of their data sheets by a little.
inline constexpr double kAboveDataSheet = 1.1;

struct ParamSpec {
  std::string_view name;
  double start;
  double low;
  double high;
  // Fitted for each label (vector op, attention kernel, collective); otherwise
  // shared by all labels of a table.
  bool per_label = false;
};

}  // namespace gpueta
