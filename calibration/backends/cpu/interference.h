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

 private:
  std::vector<int> schedstat_files_;  // one a thread; empty on systems without
  int stat_file_ = -1;
};

// The longest of the times that a cache line takes from the calling thread to
// another OpenMP thread and back; 0 with one thread. Takes a microsecond or two
// a thread.
double CoreRoundTripNs();

// Whether threads whose cores are said to share their last-level cache exchange
// data so slowly that they do not: a hypervisor may move virtual cores to
// different dies, and back after seconds. What one core wrote and the other
// reads then costs several times as much; a layer that is not bound by
// arithmetic takes up to twice as long.
bool CoresAreApart(double round_trip_ns);

// The waiting time of a line of schedstat in nanoseconds, and the steal ticks
// of /proc/stat; 0 for other text.
double ParseWaitingNs(const char* schedstat);
double ParseStealTicks(const char* stat);

}  // namespace gpueta
