// Notices when a device changes against its predictions.
#pragma once

#include <cstdint>

namespace gpueta {

// What one stream of ln(observed/predicted) says, predicted without correction.
//
// A two-sided CUSUM (Page, Biometrika 41, 1954) on z = (x − level)/scale,
// clipped to ±4: S⁺ = max(0, S⁺ + z − k), S⁻ = max(0, S⁻ − z − k), alarm when one
// passes h. CUSUM rather than Page-Hinkley because its reference value k is the
// change we look for: a factor of 1.3 is ln 1.3 = 0.26, and with scale 0.2 the
// best k is half of that, 0.65. Level and scale are the stream's own, learnt from
// the first 50 observations on and slowly followed (memory 1000) while both sums
// are small; the scale is never below 0.08, so that changes of a few percent,
// which correction absorbs, raise no alarm however quiet the stream.
//
// False alarms: for independent normal errors the mean run length of one side is
// (e^{2kb} − 2kb − 1)/(2k²) with b = h + 1.166 (Siegmund 1985): for h = 18 that is
// 8e10, and by the same argument some 1e7 for Laplace errors; less, because the
// level is learnt. drift_detector_test simulates: none in 100,000 observations of
// eight kinds of noise. Found: with scale 0.2, a factor of 1.3 passes h after
// 18/(1.3 − 0.65) = 28 observations on average, within 60 in 98 % of
// cases; with scale 0.1 always.
//
// Besides, a profile may be wrong from the start: a level beyond a factor of 1.3
// and four standard errors, after the first 50, is an alarm as well. An alarm
// stays until the level has come back to what it was (0 for an alarm from the
// start), or until Reset.
class DriftDetector {
 public:
  static constexpr int kWarmUp = 50;
  static constexpr double kReference = 0.65;  // k
  static constexpr double kThreshold = 18;    // h

  enum class State : std::uint8_t { kLearning, kStable, kSlower, kFaster };

  // True when this observation raises an alarm.
  bool Add(double ln_ratio);
  // Another profile answers: nothing learnt holds.
  void Reset() { *this = DriftDetector(); }

  State state() const { return state_; }
  bool alarm() const { return state_ == State::kSlower || state_ == State::kFaster; }
  // Mean of ln(observed/predicted) lately (memory 50; from an alarm on, since the
  // change).
  double recent_level() const { return memory_.recent; }

  // All it remembers, for keeping it elsewhere.
  struct Run {         // since the sum was last 0
    double sum = 0;    // S
    double total = 0;  // of x, clipped as z
    std::int64_t count = 0;
  };
  struct Memory {
    std::int64_t count = 0;  // since the level was last learnt anew
    double level = 0;
    double deviation = 0;  // mean absolute, about the level
    Run up;                // S⁺
    Run down;              // S⁻
    double recent = 0;
    double normal_level = 0;      // before the alarm
    std::int64_t back_count = 0;  // observations in a row with the recent level near it
  };
  const Memory& memory() const { return memory_; }
  static DriftDetector Restore(State state, const Memory& memory);

 private:
  bool Raise(double level, bool slower);
  void Follow(double ln_ratio);

  State state_ = State::kLearning;
  Memory memory_;
};

}  // namespace gpueta
