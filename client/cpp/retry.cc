#include "client/cpp/retry.h"

#include <algorithm>
#include <thread>

namespace gpueta::client {

Clock RealClock() {
  return {.now = [] { return std::chrono::steady_clock::now(); },
          .sleep = [](std::chrono::milliseconds pause) { std::this_thread::sleep_for(pause); }};
}

std::optional<std::chrono::milliseconds> PauseBefore(int attempt, const absl::Status& error,
                                                     const ClientOptions& options, std::chrono::milliseconds left) {
  const bool passing = error.code() == absl::StatusCode::kUnavailable;
  if (!passing || attempt > options.attempts) return std::nullopt;
  auto pause = options.first_pause;
  for (int i = 2; i < attempt && pause < options.longest_pause; ++i) pause *= 2;
  pause = std::min(pause, options.longest_pause);
  if (pause >= left) return std::nullopt;
  return pause;
}

absl::Status Retry(const ClientOptions& options, const Clock& clock,
                   const std::function<absl::Status(std::chrono::steady_clock::time_point)>& call) {
  const auto deadline = clock.now() + options.deadline;
  for (int attempt = 1;; ++attempt) {
    absl::Status status = call(deadline);
    if (status.ok()) return status;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock.now());
    const auto pause = PauseBefore(attempt + 1, status, options, left);
    if (!pause.has_value()) return status;
    clock.sleep(*pause);
  }
}

}  // namespace gpueta::client
