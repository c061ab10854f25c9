// Spreading work over the threads that oneDNN uses too.
#pragma once

#include <algorithm>
#include <cstddef>

#include "calibration/backends/cpu/openmp.h"

namespace gpueta {

// Calls part(begin, end) for contiguous parts of [0, n), one a thread. All
// threads or none take part: the OpenMP run time ends threads that a smaller
// team leaves over, and starting them again costs more than the work. Parts
// begin at multiples of 16, a cache line of floats.
template <class Part>
void ParallelParts(std::size_t n, bool parallel, const Part& part) {
  if (!parallel) {
    part(std::size_t{0}, n);
    return;
  }
#pragma omp parallel
  {
    constexpr std::size_t kAlignment = 16;
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t blocks = (n + kAlignment - 1) / kAlignment;
    const std::size_t begin = std::min(n, blocks * thread / threads * kAlignment);
    const std::size_t end = std::min(n, blocks * (thread + 1) / threads * kAlignment);
    if (begin < end) part(begin, end);
  }
}

}  // namespace gpueta
