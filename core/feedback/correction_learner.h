// Learns by what factor the predictions of one op on one device are off.
#pragma once

#include <array>
#include <cstdint>

#include "core/predict/correction.h"

namespace gpueta {

// From ln(observed/predicted), predicted without correction. What it does:
// - means that fade (memory 400 observations of the op), of errors within four
//   mean deviations: outliers count as that;
// - shrinks: the op's mean as if ten more observations had said 0, that of a size
//   class as if ten had said the op's;
// - bounds the factors to [kSmallestCorrection, kLargestCorrection];
// - before an observation is learnt, compares |ln error| with and without the
//   factor learnt so far: the factors hold only once that was better by two
//   standard errors over the latest 200 observations (at least 10), and until it
//   is no better. So a stream on which correction does not help has none.
class CorrectionLearner {
 public:
  void Add(int size_class, double ln_ratio);

  // After a sudden change to a mean of `ln_ratio`: what was learnt counts as ten
  // observations of that.
  void Forget(double ln_ratio);
  // Another profile answers.
  void Reset() { *this = CorrectionLearner(); }

  // No correction unless it helps.
  CorrectionCurve Factors() const;
  // The factors it would have.
  CorrectionCurve Candidate() const;
  bool helps() const { return memory_.helps; }

  // The mean lies beyond a bound, and has done for that many observations.
  std::int64_t observations_at_bound() const { return memory_.at_bound; }

  // All it remembers, for keeping it elsewhere.
  struct Memory {
    struct Mean {
      double weight = 0;
      double sum = 0;
    };
    std::array<Mean, kSizeClasses> classes;
    double deviation = 0;  // mean absolute, about the candidate
    double deviation_weight = 0;
    double gain_weight = 0;  // of |ln error| without less that with the candidate
    double gain = 0;         // sums, faded
    double squared_gain = 0;
    bool helps = false;
    std::int64_t at_bound = 0;
  };
  const Memory& memory() const { return memory_; }
  static CorrectionLearner Restore(const Memory& memory);

 private:
  double OpMean() const;
  double LnFactor(int size_class) const;
  void Compare(double ln_ratio, double ln_factor);

  Memory memory_;
};

}  // namespace gpueta
