// What a step of an engine takes besides its kernels.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace gpueta {

// Scheduling, sampling, detokenising and launching what no kernel covers.
// Unless it was fitted it is 0: a step then takes as long as its kernels.
struct EngineOverhead {
  double step_us = 0;   // for each step
  double token_us = 0;  // for each token of it

  friend bool operator==(const EngineOverhead&, const EngineOverhead&) = default;
  double Of(std::int64_t tokens) const { return step_us + token_us * static_cast<double>(tokens); }
};

// INVALID_ARGUMENT naming the field for times that are negative or not finite.
absl::Status Check(const EngineOverhead& overhead);

// An iteration that an engine reported.
struct StepRecord {
  std::int64_t tokens = 0;  // scheduled, prefill and decode together
  double kernels_us = 0;    // predicted p50 of the step without overhead
  double observed_us = 0;
};

// Least squares of observed_us − kernels_us over the tokens, each record
// weighted by 1/observed_us, both coefficients at least 0; records further off
// than three times the median error are left out of a second fit.
// INVALID_ARGUMENT for fewer than two records or a time that is not above 0.
absl::StatusOr<EngineOverhead> FitEngineOverhead(std::span<const StepRecord> records);

}  // namespace gpueta
