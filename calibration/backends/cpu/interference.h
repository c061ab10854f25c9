// Noticing that something else ran.
#pragma once

#include <vector>

namespace gpueta {

// Running totals of the time that was taken away from us.
struct Interference {
  double waiting_us = 0;  // the threads were ready but not running, summed over threads
  double steal_us = 0;    // the hypervisor ran something else; in ticks of 10 ms
};

// Whether what happened between two readings spoils a latency of `wall_us`
// measured between them.
bool Spoils(const Interference& before, const Interference& after, double wall_us);

// Reads what the system counts about the OpenMP threads of the thread that
// constructed it; used by that thread only.
//
// CPU time would not do: that of a thread running on another core is brought
// up to date only every tick (4 ms). The time a thread waited for a core is
// exact (/proc/PID/task/TID/schedstat); on systems without it, an involuntary
// context switch counts as a wait of one time slice.
class InterferenceMonitor {
 public:
  InterferenceMonitor();
  ~InterferenceMonitor();
  InterferenceMonitor(const InterferenceMonitor&) = delete;
  InterferenceMonitor& operator=(const InterferenceMonitor&) = delete;

  enum class Steal { kSkip, kRead };
  // Takes about a microsecond a thread. Steal time takes ten more and, by its
  // ticks, says something only about tens of milliseconds.
  Interference Read(Steal steal) const;

  // Whether the threads are farther apart now than they have been: a
  // hypervisor may move virtual cores to different core complexes and back.
  // There, what one thread wrote and the other reads costs several times as
  // much, and a small kernel takes up to twice as long. Told by the time of an
  // empty parallel region against the shortest seen so far. Takes a few
  // microseconds.
  bool CoresAreFar();

 private:
  std::vector<int> schedstat_files_;  // one a thread; empty on systems without
  int stat_file_ = -1;
  double shortest_region_us_;
};

// The waiting time of a line of schedstat in nanoseconds, and the steal ticks
// of /proc/stat; 0 for other text.
double ParseWaitingNs(const char* schedstat);
double ParseStealTicks(const char* stat);

}  // namespace gpueta
