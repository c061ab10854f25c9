// What clocks and limits around a sample say about it, and when to let a card
// cool down. Pure: states come from the caller.
#pragma once

#include <optional>

#include "calibration/backends/cuda/driver/card.h"
#include "calibration/backends/timing.h"

namespace gpueta {

// Remembers the SM clock at which the card runs when nothing holds it back, and
// compares samples with it.
class ClockWatch {
 public:
  // Of a sample taken between two readings. Slowed when the card says that it was
  // held back (power, temperature, the host's power supply), or when either clock
  // was below the highest seen so far by more than boost steps explain. A clock that
  // an administrator set is the card's own.
  Condition ConditionOf(const CardState& before, const CardState& after);

  double highest_mhz() const { return highest_mhz_; }

 private:
  double highest_mhz_ = 0;
};

// Pauses after slowed samples: short ones first, each twice as long as the last. A
// card that is still slowed after the longest stays so (a power cap under steady
// load): it is measured as it is, and given another chance after a while.
class CoolDown {
 public:
  // Microseconds to pause before the next sample; 0: none.
  double PauseUs(Condition last, double now_us);

 private:
  double next_us_ = 0;
  double hopeless_until_us_ = 0;
};

}  // namespace gpueta
