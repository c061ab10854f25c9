#include "server/signals.h"

#include <cerrno>
#include <cmath>
#include <csignal>
#include <ctime>

namespace gpueta {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

std::optional<int> WaitForStopSignal(std::optional<std::chrono::duration<double>> timeout) {
  const sigset_t signals = StopSignals();
  for (;;) {
    int signal;
    if (timeout.has_value()) {
      double whole = 0;
      const double fraction = std::modf(timeout->count(), &whole);
      const timespec wait{static_cast<time_t>(whole), static_cast<long>(fraction * 1e9)};
      signal = sigtimedwait(&signals, nullptr, &wait);
    } else {
      signal = sigwaitinfo(&signals, nullptr);
    }
    if (signal > 0) return signal;
    if (errno != EINTR) return std::nullopt;
  }
}

}  // namespace gpueta
