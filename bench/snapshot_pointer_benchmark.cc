// SnapshotPointer against what it replaces: a shared_ptr behind a mutex.

#include <benchmark/benchmark.h>

#include <mutex>

#include "server/snapshot_pointer.h"

namespace gpueta {
namespace {

SnapshotPointer<int>& ThePointer() {
  static SnapshotPointer<int>& pointer = *new SnapshotPointer<int>(std::make_shared<const int>(1));
  return pointer;
}

void BM_SnapshotPointerRead(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(ThePointer().Read());
}
BENCHMARK(BM_SnapshotPointerRead)->ThreadRange(1, 4)->UseRealTime();

// The first thread swaps all the time; the others read.
void BM_SnapshotPointerReadWhileSwapping(benchmark::State& state) {
  if (state.thread_index() == 0) {
    for ([[maybe_unused]] auto _ : state) ThePointer().Swap(std::make_shared<const int>(2));
  } else {
    for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(ThePointer().Read());
  }
}
BENCHMARK(BM_SnapshotPointerReadWhileSwapping)->Threads(2)->Threads(4)->UseRealTime();

void BM_MutexRead(benchmark::State& state) {
  static std::mutex mutex;
  static const std::shared_ptr<const int>& value = *new std::shared_ptr<const int>(std::make_shared<const int>(1));
  for ([[maybe_unused]] auto _ : state) {
    const std::lock_guard lock(mutex);
    std::shared_ptr<const int> copy = value;
    benchmark::DoNotOptimize(copy);
  }
}
BENCHMARK(BM_MutexRead)->ThreadRange(1, 4)->UseRealTime();

}  // namespace
}  // namespace gpueta
