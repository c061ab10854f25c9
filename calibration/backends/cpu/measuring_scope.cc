#include "calibration/backends/cpu/measuring_scope.h"

#include <vector>

#include "calibration/backends/cpu/openmp.h"

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace gpueta {
namespace {

#ifdef __SSE__
unsigned FloatMode() { return _mm_getcsr(); }
void SetFloatMode(unsigned mode) { _mm_setcsr(mode); }
constexpr unsigned kDenormalsAreZero = 0x8040;  // flush to zero, and denormals are zero
#else
unsigned FloatMode() { return 0; }
void SetFloatMode(unsigned) {}
constexpr unsigned kDenormalsAreZero = 0;
#endif

std::vector<int> CoresOf(const cpu_set_t& set) {
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

ThreadPlacement::ThreadPlacement() {
  if (omp_get_proc_bind() != omp_proc_bind_false || sched_getaffinity(0, sizeof all_cores_, &all_cores_) != 0) return;
  const std::vector<int> cores = CoresOf(all_cores_);
  pinned_ = true;
#pragma omp parallel
  {
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(cores[thread % cores.size()], &core);
    if (thread == 0) {
      own_core_ = core;
    } else {
      sched_setaffinity(0, sizeof core, &core);
    }
  }
}

MeasuringScope::MeasuringScope(const ThreadPlacement& placement) : placement_(placement), float_mode_(FloatMode()) {
  if (placement_.pinned_) sched_setaffinity(0, sizeof placement_.own_core_, &placement_.own_core_);
#pragma omp parallel
  { SetFloatMode(FloatMode() | kDenormalsAreZero); }
}

MeasuringScope::~MeasuringScope() {
  SetFloatMode(float_mode_);
  if (placement_.pinned_) sched_setaffinity(0, sizeof placement_.all_cores_, &placement_.all_cores_);
}

}  // namespace gpueta
