// When to try a call again.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "gpueta/client.h"

namespace gpueta::client {

// Time, so that tests do not wait.
struct Clock {
  std::function<std::chrono::steady_clock::time_point()> now = [] { return std::chrono::steady_clock::now(); };
  std::function<void(std::chrono::milliseconds)> sleep;  // set by RealClock
};
Clock RealClock();

// The pause before attempt `attempt` (the second is 2), or nullopt when there
// must not be another: the error is final, the attempts are used up, or the
// deadline would pass meanwhile.
std::optional<std::chrono::milliseconds> PauseBefore(int attempt, const absl::Status& error,
                                                     const ClientOptions& options, std::chrono::milliseconds left);

// Calls `call(deadline)` until it succeeds or PauseBefore says no.
absl::Status Retry(const ClientOptions& options, const Clock& clock,
                   const std::function<absl::Status(std::chrono::steady_clock::time_point deadline)>& call);

}  // namespace gpueta::client
