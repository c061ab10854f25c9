#include "core/serving/engine_overhead.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr double kOutlier = 3;  // times the median error

EngineOverhead Fit(std::span<const StepRecord> records, const std::vector<bool>& used) {
  double s1 = 0, sx = 0, sxx = 0, sy = 0, sxy = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!used[i]) continue;
    const double w = 1 / (records[i].observed_us * records[i].observed_us);
    const auto x = static_cast<double>(records[i].tokens);
    const double y = records[i].observed_us - records[i].kernels_us;
    s1 += w;
    sx += w * x;
    sxx += w * x * x;
    sy += w * y;
    sxy += w * x * y;
  }
  const double determinant = s1 * sxx - sx * sx;
  EngineOverhead both;
  if (determinant > 1e-12 * s1 * sxx) {
    both = {.step_us = (sy * sxx - sxy * sx) / determinant, .token_us = (s1 * sxy - sx * sy) / determinant};
    if (both.step_us >= 0 && both.token_us >= 0) return both;
  }
  // At a bound: the better of the two that are left.
  const EngineOverhead constant{.step_us = std::max(0.0, sy / s1)};
  const EngineOverhead linear{.token_us = sxx > 0 ? std::max(0.0, sxy / sxx) : 0};
  const double gain_constant = constant.step_us * (2 * sy - s1 * constant.step_us);
  const double gain_linear = linear.token_us * (2 * sxy - sxx * linear.token_us);
  return gain_constant >= gain_linear ? constant : linear;
}

}  // namespace

absl::Status Check(const EngineOverhead& overhead) {
  for (const auto& [name, us] : {std::pair("step_us", overhead.step_us), std::pair("token_us", overhead.token_us)}) {
    if (!(us >= 0) || !std::isfinite(us))
      return FieldError(name, fmt::format("{} must be finite and not negative", us));
  }
  return absl::OkStatus();
}

absl::StatusOr<EngineOverhead> FitEngineOverhead(std::span<const StepRecord> records) {
  if (records.size() < 2) return InvalidArgument("records: {} of them; at least 2 are needed", records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const StepRecord& r = records[i];
    if (!(r.observed_us > 0) || !std::isfinite(r.observed_us) || !(r.kernels_us > 0) || !std::isfinite(r.kernels_us)) {
      return InvalidArgument("records[{}]: observed_us {} and kernels_us {} must be above 0", i, r.observed_us,
                             r.kernels_us);
    }
    if (r.tokens < 1) return InvalidArgument("records[{}].tokens: {} must be at least 1", i, r.tokens);
  }
  std::vector<bool> used(records.size(), true);
  const EngineOverhead first = Fit(records, used);
  std::vector<double> errors;
  for (const StepRecord& r : records) {
    errors.push_back(std::abs(r.kernels_us + first.Of(r.tokens) - r.observed_us) / r.observed_us);
  }
  std::vector<double> sorted = errors;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double limit = std::max(kOutlier * *middle, 1e-9);
  for (std::size_t i = 0; i < records.size(); ++i) used[i] = errors[i] <= limit;
  return Fit(records, used);
}

}  // namespace gpueta
