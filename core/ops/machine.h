// The few numbers of a device that the forms need, for one table.
#pragma once

#include "core/ops/form_math.h"

namespace gpueta {

// T is float where estimates are served and double where they are fitted.
template <class T>
struct Machine {
  T sms = 1;        // streaming multiprocessors, or cores
  T peak = 1;       // FLOP/µs of the table's dtype
  T bandwidth = 1;  // B/µs
  T l2 = 1;         // bytes of last-level cache
  T a_bytes = 4;    // bytes an element: activations
  T w_bytes = 4;    // weights
  T out_bytes = 4;  // output
  T kv_bytes = 4;   // keys and values

  // What follows from these, worked out once rather than for every kernel.
  T per_sm = T(1) / sms;
  T per_flop = T(1) / peak;       // µs
  T per_byte = T(1) / bandwidth;  // µs
  T per_l2 = T(1) / l2;
  T log2_sms = math::Log2(sms);
  T log2_l2 = math::Log2(l2);
  T log2_ridge = math::Log2(peak / bandwidth);  // FLOP a byte where compute and memory balance

  // In another type, and what follows worked out anew.
  template <class U>
  Machine<U> As() const {
    return {U(sms), U(peak), U(bandwidth), U(l2), U(a_bytes), U(w_bytes), U(out_bytes), U(kv_bytes)};
  }
};

}  // namespace gpueta
