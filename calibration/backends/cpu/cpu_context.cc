#include "calibration/backends/cpu/cpu_context.h"

#include "calibration/backends/cpu/openmp.h"

namespace gpueta {

std::shared_ptr<const MeasuringScope> CpuContext::Scope() {
  std::shared_ptr<const MeasuringScope> scope = scope_.lock();
  if (scope == nullptr) {
    scope = std::make_shared<const MeasuringScope>(placement_);
    scope_ = scope;
  }
  return scope;
}

std::span<std::byte> CpuContext::OthersData() {
  constexpr std::size_t kTypicalBytes = std::size_t{1} << 20;
  if (others_data_.empty()) {
    const std::size_t a_core = info.core_cache_bytes > 0 ? info.core_cache_bytes : kTypicalBytes;
    others_data_.resize(a_core * static_cast<std::size_t>(omp_get_max_threads()));
  }
  return others_data_;
}

Condition CpuContext::PlacementNow() {
  // A hypervisor leaves cores for seconds where they are.
  constexpr double kValidUs = 5'000;
  if (const double now_us = SteadyMicroseconds(); now_us > placement_checked_us_ + kValidUs) {
    const bool apart = info.one_last_level_cache && CoresAreApart(CoreRoundTripNs());
    placement_now_ = apart ? Condition::kSlowed : Condition::kUndisturbed;
    placement_checked_us_ = now_us;
  }
  return placement_now_;
}

Condition Between(const Interference& before, const Interference& after, double wall_us) {
  return Spoils(before, after, wall_us) ? Condition::kInterrupted : Condition::kUndisturbed;
}

Sample TimeOnce(const RunOnce& run, const InterferenceMonitor& monitor) {
  const Interference before = monitor.Read(InterferenceMonitor::Steal::kSkip);
  const double start_us = SteadyMicroseconds();
  run();
  const double latency_us = SteadyMicroseconds() - start_us;
  const Interference after = monitor.Read(InterferenceMonitor::Steal::kSkip);
  return {.latency_us = latency_us, .condition = Between(before, after, latency_us)};
}

}  // namespace gpueta
