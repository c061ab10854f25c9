#include "core/feedback/correction_learner.h"

#include <algorithm>
#include <cmath>

namespace gpueta {
namespace {

constexpr double kMeanFade = 1 - 1.0 / 400;
constexpr double kGainFade = 1 - 1.0 / 200;
constexpr double kPrior = 10;       // observations that say 0
constexpr double kClassPrior = 10;  // observations of a class that say what the op does
constexpr double kOutlier = 4;      // mean deviations
constexpr double kLeastDeviation = 0.05;
constexpr double kFirstDeviation = 0.3;  // until ten observations say otherwise
constexpr double kFirstWeight = 10;
constexpr double kStandardErrors = 2;
constexpr double kFewestCompared = 10;
constexpr double kKeptAfterChange = 10;
const double kLargestLn = std::log(static_cast<double>(kLargestCorrection));
const double kSmallestLn = std::log(static_cast<double>(kSmallestCorrection));

void Fade(double& sum, double fade, double value) { sum = fade * sum + value; }

}  // namespace

double CorrectionLearner::OpMean() const {
  double sum = 0, weight = kPrior;
  for (const Memory::Mean& mean : memory_.classes) {
    sum += mean.sum;
    weight += mean.weight;
  }
  return sum / weight;
}

double CorrectionLearner::LnFactor(int size_class) const {
  const Memory::Mean& mean = memory_.classes[static_cast<std::size_t>(size_class)];
  const double ln = (mean.sum + kClassPrior * OpMean()) / (mean.weight + kClassPrior);
  return std::clamp(ln, kSmallestLn, kLargestLn);
}

// Whether the factor learnt before would have helped this observation.
void CorrectionLearner::Compare(double ln_ratio, double ln_factor) {
  Memory& m = memory_;
  const double gain = std::abs(ln_ratio) - std::abs(ln_ratio - ln_factor);  // at most ln 2, whatever the outlier
  Fade(m.gain_weight, kGainFade, 1);
  Fade(m.gain, kGainFade, gain);
  Fade(m.squared_gain, kGainFade, gain * gain);
  const double mean = m.gain / m.gain_weight;
  if (m.helps) {
    m.helps = mean > 0;
    return;
  }
  const double variance = std::max(m.squared_gain / m.gain_weight - mean * mean, 0.0);
  m.helps =
      m.gain_weight >= kFewestCompared && mean > kStandardErrors * std::sqrt(variance / m.gain_weight) && mean > 0;
}

void CorrectionLearner::Add(int size_class, double ln_ratio) {
  Memory& m = memory_;
  const double ln_factor = LnFactor(size_class);
  Compare(ln_ratio, ln_factor);

  const double deviation = (m.deviation + kFirstWeight * kFirstDeviation) / (m.deviation_weight + kFirstWeight);
  const double most = kOutlier * std::max(deviation, kLeastDeviation);
  const double x = std::clamp(ln_ratio, ln_factor - most, ln_factor + most);
  Fade(m.deviation_weight, kMeanFade, 1);
  Fade(m.deviation, kMeanFade, std::abs(x - ln_factor));
  for (int c = 0; c < kSizeClasses; ++c) {
    Memory::Mean& mean = m.classes[static_cast<std::size_t>(c)];
    Fade(mean.weight, kMeanFade, c == size_class ? 1 : 0);
    Fade(mean.sum, kMeanFade, c == size_class ? x : 0);
  }
  const double mean = OpMean();
  m.at_bound = mean >= kLargestLn || mean <= kSmallestLn ? m.at_bound + 1 : 0;
}

void CorrectionLearner::Forget(double ln_ratio) {
  Memory& m = memory_;
  double weight = 0;
  for (const Memory::Mean& mean : m.classes) weight += mean.weight;
  const double keep = weight > kKeptAfterChange ? kKeptAfterChange / weight : 1;
  for (Memory::Mean& mean : m.classes) {
    mean.weight *= keep;
    mean.sum = mean.weight * ln_ratio;
  }
  m.deviation = 0;
  m.deviation_weight = 0;
  m.gain_weight = m.gain = m.squared_gain = 0;
  m.helps = false;
}

CorrectionCurve CorrectionLearner::Candidate() const {
  CorrectionCurve curve;
  for (int c = 0; c < kSizeClasses; ++c)
    curve.factor[static_cast<std::size_t>(c)] =
        std::clamp(static_cast<float>(std::exp(LnFactor(c))), kSmallestCorrection, kLargestCorrection);
  return curve;
}

CorrectionCurve CorrectionLearner::Factors() const { return memory_.helps ? Candidate() : CorrectionCurve(); }

CorrectionLearner CorrectionLearner::Restore(const Memory& memory) {
  CorrectionLearner learner;
  learner.memory_ = memory;
  return learner;
}

}  // namespace gpueta
