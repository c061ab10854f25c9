#include "core/predict/correction.h"

#include "core/predict/row_loops.h"

namespace gpueta {

int SizeClassOf(double us) { return us < kLongestShortUs ? 0 : us < kLongestMediumUs ? 1 : 2; }

float FactorAt(const CorrectionCurve& curve, double us) {
  auto corrected = static_cast<float>(us);
  float factor = 1;
  CorrectRows(curve, 1, &corrected, &factor);
  return factor;
}

double WithoutCorrection(const CorrectionCurve& curve, double us) {
  // Corrected latencies grow with uncorrected ones: bisection holds. Twenty-six
  // halvings of a ratio of 4 leave 2e-8.
  double low = us / kLargestCorrection;
  double high = us / kSmallestCorrection;
  for (int i = 0; i < 26; ++i) {
    const double middle = (low + high) / 2;
    (middle * static_cast<double>(FactorAt(curve, middle)) < us ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace gpueta
