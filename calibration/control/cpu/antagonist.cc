#include "calibration/control/cpu/antagonist.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <future>
#include <system_error>

#include "calibration/backends/cpu/buffers.h"
#include "calibration/backends/timing.h"
#include "core/base/errors.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace gpueta {
namespace {

// What is copied from, and as much that is copied to: more than caches keep.
constexpr std::size_t kStreamBytes = std::size_t{128} << 20;
// Some microseconds of one core's bandwidth.
constexpr std::size_t kBurstBytes = std::size_t{64} << 10;

// Reads and writes alike, as most programs do: writes alone take bandwidth from
// writes only. What is written goes past the caches.
void Copy(const std::byte* from, std::byte* to, std::size_t bytes) {
#ifdef __SSE2__
  for (std::size_t i = 0; i < bytes; i += sizeof(__m128i)) {
    const __m128i value = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), value);
  }
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

void Pause() {
#ifdef __SSE2__
  _mm_pause();
#endif
}

void StayOn(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

struct Antagonist::Worker {
  void Run(int core, double duty, const std::atomic<bool>& stop) {
    StayOn(core);
    started_us = SteadyMicroseconds();
    started.set_value();
    for (std::size_t at = 0; !stop.load(std::memory_order_relaxed); at = (at + kBurstBytes) % kStreamBytes) {
      const double begin_us = SteadyMicroseconds();
      Copy(memory.data() + at, memory.data() + kStreamBytes + at, kBurstBytes);
      const double now_us = SteadyMicroseconds();
      const double until_us = now_us + (now_us - begin_us) * (1 - duty) / duty;
      while (SteadyMicroseconds() < until_us && !stop.load(std::memory_order_relaxed)) Pause();
    }
  }

  Buffer memory;
  std::promise<void> started;
  double started_us = 0;
  std::thread thread;
};

absl::StatusOr<std::unique_ptr<Antagonist>> Antagonist::Start(std::span<const int> cores, double duty) {
  std::unique_ptr<Antagonist> antagonist(new Antagonist);
  for (const int core : cores) {
    auto worker = std::make_unique<Worker>();
    GPUETA_ASSIGN_OR_RETURN(worker->memory, Buffer::Allocate(2 * kStreamBytes, "bandwidth contention"));
    try {
      worker->thread =
          std::thread([w = worker.get(), core, duty, stop = &antagonist->stop_] { w->Run(core, duty, *stop); });
    } catch (const std::system_error& error) {
      return ResourceExhausted("bandwidth contention: cannot start a thread: {}", error.what());
    }
    worker->started.get_future().wait();
    antagonist->workers_.push_back(std::move(worker));
  }
  return antagonist;
}

Antagonist::~Antagonist() {
  stop_ = true;
  for (const auto& worker : workers_) worker->thread.join();
}

double Antagonist::StarvedShare() const {
  double worst = 0;
  for (const auto& worker : workers_) {
    clockid_t clock = 0;
    timespec used{};
    if (pthread_getcpuclockid(worker->thread.native_handle(), &clock) != 0 || clock_gettime(clock, &used) != 0)
      continue;
    const double used_us = 1e6 * static_cast<double>(used.tv_sec) + 1e-3 * static_cast<double>(used.tv_nsec);
    const double passed_us = SteadyMicroseconds() - worker->started_us;
    if (passed_us > 0) worst = std::max(worst, 1 - used_us / passed_us);
  }
  return worst;
}

}  // namespace gpueta
