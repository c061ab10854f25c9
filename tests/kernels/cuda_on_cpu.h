// Runs the source of a CUDA kernel on the CPU, one block after another, a thread
// of a block as a thread of the CPU: for tests of kernels where no device is.
// A kernel that forgets a barrier is a data race, which ThreadSanitizer sees.
//
// Include it before the kernel's source. Kernels may use shared memory,
// __syncthreads, and shuffles in which all threads of a block take part: they wait
// for the block instead of their warp. One kernel runs at a time.
#pragma once

#include <algorithm>
#include <array>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(threads)
#define __restrict__

namespace cuda_on_cpu {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

inline thread_local Dim3 thread_index{};
inline thread_local Dim3 block_index{};
inline Dim3 grid_size{};
inline std::barrier<>* block_barrier = nullptr;
inline std::array<std::uint64_t, 1024> shuffled{};  // what each thread of the block gives

// `kernel()` calls the kernel with its arguments. Blocks have one dimension.
template <class Kernel>
void Run(Dim3 grid, unsigned threads, const Kernel& kernel) {
  std::barrier<> barrier(threads);
  block_barrier = &barrier;
  grid_size = grid;
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

// What thread `from` of the calling thread's warp gives.
template <class T>
T Shuffled(T value, unsigned from) {
  constexpr unsigned kWarp = 32;
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::memcpy(&shuffled[thread_index.x], &value, sizeof(T));
  block_barrier->arrive_and_wait();
  T given;
  std::memcpy(&given, &shuffled[thread_index.x / kWarp * kWarp + from % kWarp], sizeof(T));
  block_barrier->arrive_and_wait();
  return given;
}

}  // namespace cuda_on_cpu

#define threadIdx cuda_on_cpu::thread_index
#define blockIdx cuda_on_cpu::block_index
inline void __syncthreads() { cuda_on_cpu::block_barrier->arrive_and_wait(); }
#define gridDim cuda_on_cpu::grid_size
template <class T>
T __shfl_xor_sync(unsigned, T value, int other) {
  return cuda_on_cpu::Shuffled(value, threadIdx.x ^ static_cast<unsigned>(other));
}
template <class T>
T __shfl_up_sync(unsigned, T value, int down) {
  const unsigned lane = threadIdx.x % 32;
  const auto by = static_cast<unsigned>(down);
  return cuda_on_cpu::Shuffled(value, lane >= by ? lane - by : lane);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
using std::max;
using std::min;
