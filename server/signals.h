// SIGTERM and SIGINT as something to wait for.
#pragma once

#include <chrono>
#include <optional>

namespace gpueta {

// Keeps the signals from ending the process; threads started later inherit it.
void BlockStopSignals();

// The signal that arrived, waiting at most `timeout` (forever if unset);
// nullopt when the time is up.
std::optional<int> WaitForStopSignal(std::optional<std::chrono::duration<double>> timeout = std::nullopt);

}  // namespace gpueta
