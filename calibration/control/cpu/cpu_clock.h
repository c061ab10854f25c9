// The highest clock that the system lets the cores run at.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/control/card/guarded_card.h"
#include "calibration/control/configuration.h"

namespace gpueta {

// cpuN/cpufreq/scaling_max_freq under the settings directory, for all cores of
// the process alike: a limit, below which the governor still chooses.
class CpuClock {
 public:
  // NOT_FOUND where the system has no cpufreq; FAILED_PRECONDITION for cores
  // whose ranges differ. Errors as GuardedCard::Open.
  static absl::StatusOr<std::unique_ptr<CpuClock>> Open(const std::string& settings_directory,
                                                        std::span<const int> cores, const GuardOptions& guard);

  const KnobRange& range() const { return range_; }
  absl::Status Set(double clock_mhz);
  absl::Status Restore() { return card_->Restore(); }

 private:
  CpuClock() = default;

  std::unique_ptr<GuardedCard> card_;
  std::vector<std::string> settings_;  // one a core
  KnobRange range_;                    // MHz
};

}  // namespace gpueta
