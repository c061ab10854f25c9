// Converting between timing kinds. An isolated eager call carries a floor of
// host and launch time that the kernel itself does not; a graph replay carries
// a small gap.
#pragma once

#include "core/ops/form_math.h"
#include "core/ops/timing.h"

namespace gpueta {

// What is left of the floor once kernels run back to back: start and drain of
// the device. From fits to public measurements (docs/accuracy.md).
inline constexpr double kKernelFloorUs = 2.0;
// Gap between two kernels of a replayed graph.
inline constexpr double kGraphGapUs = 1.0;
// Floor of an isolated eager call where no eager measurement says better.
inline constexpr double kTypicalEagerFloorUs = 30.0;

// Converts a latency > 0. `eager_floor_us` is the smallest eager latency of
// the table on that device. Monotone, continuous and positive.
// - eager to the others: the floor comes off; below the floor, in proportion;
// - others to eager: host and device overlap, the longer one wins (smoothly).
template <class T>
GPUETA_INLINE T ConvertTiming(T us, Timing from, Timing to, T eager_floor_us) {
  if (from == to) return us;
  const T device_floor = T(kKernelFloorUs);
  T kernel = us;
  if (from == Timing::kEager) {
    const T floor = math::Max(eager_floor_us, device_floor);
    kernel = math::Max(us - (floor - device_floor), math::Min(us / floor, T(1)) * device_floor);
  } else if (from == Timing::kGraph) {
    kernel = math::Max(us - T(kGraphGapUs), us * T(0.5));
  }
  if (to == Timing::kKernel) return kernel;
  if (to == Timing::kGraph) return kernel + T(kGraphGapUs);
  return math::SmoothMax(T(1.5), kernel, math::Max(eager_floor_us, device_floor));
}

}  // namespace gpueta
