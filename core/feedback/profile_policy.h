// Which of two profiles should answer, judged on the same observations. Pure
// functions.
#pragma once

#include <cstdint>

namespace gpueta {

// Losses |ln(predicted/observed)| of two profiles on the same observations.
// Losses count as at most ln 10.
struct PairedLosses {
  std::int64_t count = 0;
  double mean = 0;         // of the shadow's loss less the active one's
  double squared_sum = 0;  // of deviations from the mean (Welford 1962)

  void Add(double active_ln_error, double shadow_ln_error);
  double StandardError() const;  // infinite for fewer than two
};

enum class ProfilePolicy : std::uint8_t {
  kManual,  // a person decides
  kAuto,
};

enum class ProfileStep : std::uint8_t {
  kWait,      // more observations
  kPromote,   // a new profile in the shadow becomes the active one
  kDiscard,   // a new profile in the shadow is worse: stop comparing
  kRollBack,  // the profile from before, in the shadow, becomes active again
  kConfirm,   // the active profile is better than the one from before: stop comparing
};

// Who is in the shadow.
enum class ShadowRole : std::uint8_t { kNew, kPrevious };

// From the 200th observation on: a step when one is better by 2.58 standard
// errors (99 %, as often as is looked; both sides are bounded by it) and by at
// least 0.002, a fifth of a percent. After 20,000 without such a difference: the
// active one stays (kDiscard, kConfirm). kManual never changes what is active: it
// waits instead of kPromote and kRollBack.
ProfileStep NextStep(ProfilePolicy policy, ShadowRole shadow, const PairedLosses& losses);

}  // namespace gpueta
