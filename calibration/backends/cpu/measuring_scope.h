// The state that threads are in while kernels are timed.
#pragma once

#include <sched.h>

namespace gpueta {

// Where the OpenMP threads of the calling thread run while kernels are timed:
// each stays on its own core. A scheduler sees nothing wrong with two of our
// threads sharing a core when another process keeps the other one busy, and
// then no sample is ever undisturbed. Moving threads about for each sample
// costs them their turn: on a busy machine a scope that lasts gives four times
// as many samples. OMP_PROC_BIND overrides.
class ThreadPlacement {
 public:
  ThreadPlacement();

 private:
  friend class MeasuringScope;
  bool pinned_ = false;
  cpu_set_t own_core_{};   // of the calling thread
  cpu_set_t all_cores_{};  // it may use otherwise
};

// While it lives, the calling thread stays on its core, and denormal numbers
// count as zero on all threads: random data run through many layers may vanish,
// that of a trained network does not, and denormals are slow. The other threads
// stay as they are afterwards; they run nothing else. Do not nest.
class MeasuringScope {
 public:
  explicit MeasuringScope(const ThreadPlacement& placement);
  ~MeasuringScope();
  MeasuringScope(const MeasuringScope&) = delete;
  MeasuringScope& operator=(const MeasuringScope&) = delete;

 private:
  const ThreadPlacement& placement_;
  unsigned float_mode_;
};

}  // namespace gpueta
