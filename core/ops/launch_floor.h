// Converting between timing kinds. An isolated eager call carries a floor of
// host and launch time that the kernel itself does not; a graph replay carries
// a small gap.
//
// The clock of an eager call starts before the host issues the kernel and stops
// when the host is back and the kernel has ended: max(floor, lead + kernel), lead
// being what passes until the kernel starts. So a kernel hides in the floor while
// the host is on its way back. That way is much the same for all operators: what
// libraries prepare lies before the kernel.
#pragma once

#include "core/ops/form_math.h"
#include "core/ops/timing.h"

namespace gpueta {

// What is left of the floor once kernels run back to back: start and drain of
// the device. From fits to public measurements (docs/accuracy.md).
inline constexpr double kKernelFloorUs = 2.0;
// Of a device's quickest eager call, the host's way back. Of elementwise operators
// on T4, V100, P100 and A100 (NeuSight's rows), by how small and large ones differ:
// .46 in the median of 44, mostly .39 to .5.
inline constexpr double kWayBackShare = 0.46;
// Gap between two kernels of a replayed graph.
inline constexpr double kGraphGapUs = 1.0;
// Floor of an isolated eager call where no eager measurement says better.
inline constexpr double kTypicalEagerFloorUs = 30.0;

// What of a kernel hides in the floor of its call: `work_us` is what it takes at
// the least by its operations and bytes (the roofline), `quickest_call_us` the
// quickest eager call of any operator on the device.
template <class T>
GPUETA_INLINE T HiddenUs(T work_us, T quickest_call_us) {
  return math::Max(math::Min(work_us, T(kWayBackShare) * quickest_call_us), T(kKernelFloorUs));
}

// Converts a latency > 0. `eager_floor_us` is the smallest eager latency of
// the table on that device, `hidden_us` what of the kernel hides in it (above).
// Monotone, continuous and positive.
// - eager to the others: the floor comes off, but for what is hidden in it; below
//   the floor, in proportion;
// - others to eager: host and device overlap, the longer one wins (smoothly).
template <class T>
GPUETA_INLINE T ConvertTiming(T us, Timing from, Timing to, T eager_floor_us, T hidden_us) {
  if (from == to) return us;
  const T device_floor = T(kKernelFloorUs);
  T kernel = us;
  if (from == Timing::kEager) {
    const T floor = math::Max(eager_floor_us, device_floor);
    kernel = math::Max(us - floor, T(0)) + math::Min(us / floor, T(1)) * hidden_us;
  } else if (from == Timing::kGraph) {
    kernel = math::Max(us - T(kGraphGapUs), us * T(0.5));
  }
  if (to == Timing::kKernel) return kernel;
  if (to == Timing::kGraph) return kernel + T(kGraphGapUs);
  return math::SmoothMax(T(1.5), kernel, math::Max(eager_floor_us, device_floor));
}

}  // namespace gpueta
