#include "core/feedback/profile_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpueta {
namespace {

constexpr std::int64_t kFewest = 200;
constexpr std::int64_t kMost = 20'000;
constexpr double kStandardErrors = 2.58;
constexpr double kLeastGain = 0.002;
const double kLargestLoss = std::log(10.0);

double LossOf(double ln_error) { return std::min(std::abs(ln_error), kLargestLoss); }

}  // namespace

void PairedLosses::Add(double active_ln_error, double shadow_ln_error) {
  const double difference = LossOf(shadow_ln_error) - LossOf(active_ln_error);
  ++count;
  const double delta = difference - mean;
  mean += delta / static_cast<double>(count);
  squared_sum += delta * (difference - mean);
}

double PairedLosses::StandardError() const {
  if (count < 2) return std::numeric_limits<double>::infinity();
  const auto n = static_cast<double>(count);
  return std::sqrt(squared_sum / (n - 1) / n);
}

ProfileStep NextStep(ProfilePolicy policy, ShadowRole shadow, const PairedLosses& losses) {
  if (losses.count < kFewest) return ProfileStep::kWait;
  const double margin = std::max(kStandardErrors * losses.StandardError(), kLeastGain);
  if (losses.mean < -margin) {
    if (policy == ProfilePolicy::kManual) return ProfileStep::kWait;
    return shadow == ShadowRole::kNew ? ProfileStep::kPromote : ProfileStep::kRollBack;
  }
  if (losses.mean > margin || losses.count >= kMost)
    return shadow == ShadowRole::kNew ? ProfileStep::kDiscard : ProfileStep::kConfirm;
  return ProfileStep::kWait;
}

}  // namespace gpueta
