#include "calibration/backends/cpu/interference.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "calibration/backends/timing.h"

namespace gpueta {
namespace {

// Waiting below this share of a latency is lost in its noise.
constexpr double kSpoilingShare = 0.005;

constexpr double kTimeSliceUs = 4'000;  // Linux' default, to the order of magnitude

// Seen on a virtual machine: 0.43 us on one core complex, 0.8 to 1.0 us on two.
constexpr double kFarRatio = 1.5;
constexpr int kRegions = 8;  // the shortest of these is free of interruptions

// The beginning of a file of /proc, read afresh; empty if it cannot be read.
std::array<char, 256> ReadStart(int file) {
  std::array<char, 256> text{};
  if (pread(file, text.data(), text.size() - 1, 0) < 0) text[0] = '\0';
  return text;
}

double EmptyRegionUs() {
  double shortest = std::numeric_limits<double>::max();
  for (int i = 0; i < kRegions; ++i) {
    const double start = SteadyMicroseconds();
#pragma omp parallel
    { asm volatile("" ::: "memory"); }
    shortest = std::min(shortest, SteadyMicroseconds() - start);
  }
  return shortest;
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

InterferenceMonitor::InterferenceMonitor()
    : stat_file_(open("/proc/stat", O_RDONLY | O_CLOEXEC)), shortest_region_us_(std::numeric_limits<double>::max()) {
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

bool InterferenceMonitor::CoresAreFar() {
  if (omp_get_max_threads() == 1) return false;
  const double region_us = EmptyRegionUs();
  shortest_region_us_ = std::min(shortest_region_us_, region_us);
  return region_us > kFarRatio * shortest_region_us_;
}

}  // namespace gpueta
