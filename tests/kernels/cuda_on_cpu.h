// Runs the source of a CUDA kernel on the CPU, one block after another, a thread
// of a block as a thread of the CPU: for tests of kernels where no device is.
// A kernel that forgets a barrier is a data race, which ThreadSanitizer sees.
//
// Include it before the kernel's source. Kernels may use shared memory and
// __syncthreads; warps are not modelled. One kernel runs at a time.
#pragma once

#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
#define __restrict__

namespace cuda_on_cpu {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

inline thread_local Dim3 thread_index{};
inline thread_local Dim3 block_index{};
inline std::barrier<>* block_barrier = nullptr;

// `kernel()` calls the kernel with its arguments. Blocks have one dimension.
template <class Kernel>
void Run(Dim3 grid, unsigned threads, const Kernel& kernel) {
  std::barrier<> barrier(threads);
  block_barrier = &barrier;
  std::vector<std::jthread> pool;
  pool.reserve(threads);
  for (unsigned t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      thread_index = {t, 0, 0};
      for (unsigned z = 0; z < grid.z; ++z) {
        for (unsigned y = 0; y < grid.y; ++y) {
          for (unsigned x = 0; x < grid.x; ++x) {
            block_index = {x, y, z};
            kernel();
            barrier.arrive_and_wait();  // blocks share what is static
          }
        }
      }
    });
  }
}

}  // namespace cuda_on_cpu

#define threadIdx cuda_on_cpu::thread_index
#define blockIdx cuda_on_cpu::block_index
inline void __syncthreads() { cuda_on_cpu::block_barrier->arrive_and_wait(); }
