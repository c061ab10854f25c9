// Kernels that ask one thing of a device: to keep its memory busy. Compiled to PTX; the
// names and arguments of the entries are their contract.

namespace {

constexpr int kThreads = 512;  // of a block of contend
constexpr int kPacks = 4;      // that a thread has under way at once

}  // namespace

// Copies `packs` packs of 16 bytes round and round, in bursts of some microseconds, each
// followed by `pause` times what it took; ends after `cycles` of the SM's clock. What it
// copies is the first to leave the caches.
extern "C" __global__ void __launch_bounds__(kThreads)
    contend(int4* to, const int4* from, long long packs, long long cycles, float pause) {
  const long long start = clock64();
  const long long burst = static_cast<long long>(kThreads) * kPacks;
  for (long long at = blockIdx.x * burst;; at = (at + gridDim.x * burst) % packs) {
    const long long begin = clock64();
    int4 values[kPacks];
#pragma unroll
    for (int j = 0; j < kPacks; ++j) values[j] = __ldcs(from + (at + j * kThreads + threadIdx.x) % packs);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) __stcs(to + (at + j * kThreads + threadIdx.x) % packs, values[j]);
    const long long now = clock64();
    if (now - start > cycles) return;
    const long long until = now + static_cast<long long>(static_cast<float>(now - begin) * pause);
    while (clock64() < until) __nanosleep(100);
  }
}
