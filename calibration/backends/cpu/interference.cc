#include "calibration/backends/cpu/interference.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>

#include "calibration/backends/cpu/openmp.h"
#include "calibration/backends/timing.h"

namespace gpueta {
namespace {

// Waiting below this share of a latency is lost in its noise.
constexpr double kSpoilingShare = 0.005;

constexpr double kTimeSliceUs = 4'000;  // Linux' default, to the order of magnitude

// Within one last-level cache 40 to 180 ns on server processors of all makers;
// between dies or sockets 300 ns and more.
constexpr double kLongestRoundTripNs = 250;

// The beginning of a file of /proc, read afresh; empty if it cannot be read.
std::array<char, 256> ReadStart(int file) {
  std::array<char, 256> text{};
  if (pread(file, text.data(), text.size() - 1, 0) < 0) text[0] = '\0';
  return text;
}

}  // namespace

bool Spoils(const Interference& before, const Interference& after, double wall_us) {
  const double lost_us = after.waiting_us - before.waiting_us + after.steal_us - before.steal_us;
  return lost_us > kSpoilingShare * wall_us;
}

double ParseWaitingNs(const char* schedstat) {
  double running = 0;
  double waiting = 0;
  return std::sscanf(schedstat, "%lf %lf", &running, &waiting) == 2 ? waiting : 0;  // NOLINT(cert-err34-c)
}

double ParseStealTicks(const char* stat) {
  double steal = 0;  // the eighth number: user nice system idle iowait irq softirq steal
  return std::sscanf(stat, "cpu %*f %*f %*f %*f %*f %*f %*f %lf", &steal) == 1 ? steal : 0;  // NOLINT(cert-err34-c)
}

InterferenceMonitor::InterferenceMonitor() : stat_file_(open("/proc/stat", O_RDONLY | O_CLOEXEC)) {
  std::vector<long> ids(static_cast<std::size_t>(omp_get_max_threads()));
#pragma omp parallel
  { ids[static_cast<std::size_t>(omp_get_thread_num())] = syscall(SYS_gettid); }
  for (const long id : ids) {
    const int file = open(fmt::format("/proc/self/task/{}/schedstat", id).c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) schedstat_files_.push_back(file);
  }
}

InterferenceMonitor::~InterferenceMonitor() {
  for (const int file : schedstat_files_) close(file);
  if (stat_file_ >= 0) close(stat_file_);
}

Interference InterferenceMonitor::Read(Steal steal) const {
  Interference now;
  for (const int file : schedstat_files_) now.waiting_us += ParseWaitingNs(ReadStart(file).data()) / 1e3;
  if (schedstat_files_.empty()) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    now.waiting_us = kTimeSliceUs * static_cast<double>(usage.ru_nivcsw);
  }
  if (steal == Steal::kRead) {
    const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
    now.steal_us = ParseStealTicks(ReadStart(stat_file_).data()) * 1e6 / ticks_per_second;
  }
  return now;
}

double CoreRoundTripNs() {
  constexpr int kTrips = 15;  // their median is free of interruptions
  std::atomic<int> ball = 0;  // counts throws, odd ones from thread 0
  double longest_us = 0;
#pragma omp parallel
  {
    const int thread = omp_get_thread_num();
    const auto wait_for = [&ball](int count) {
      while (ball.load(std::memory_order_acquire) != count) {
      }
    };
    const auto first_throw = [](int partner) { return 2 * kTrips * (partner - 1) + 1; };
    if (thread == 0) {
      for (int partner = 1; partner < omp_get_num_threads(); ++partner) {
        std::array<double, kTrips> trips_us;
        for (int trip = 0; trip < kTrips; ++trip) {
          const int count = first_throw(partner) + 2 * trip;
          const double start_us = SteadyMicroseconds();
          ball.store(count, std::memory_order_release);
          wait_for(count + 1);
          trips_us[trip] = SteadyMicroseconds() - start_us;
        }
        std::nth_element(trips_us.begin(), trips_us.begin() + kTrips / 2, trips_us.end());
        longest_us = std::max(longest_us, trips_us[kTrips / 2]);
      }
    } else {
      for (int trip = 0; trip < kTrips; ++trip) {
        const int count = first_throw(thread) + 2 * trip;
        wait_for(count);
        ball.store(count + 1, std::memory_order_release);
      }
    }
  }
  return longest_us * 1e3;
}

bool CoresAreApart(double round_trip_ns) { return round_trip_ns > kLongestRoundTripNs; }

}  // namespace gpueta
