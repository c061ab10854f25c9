#include "server/feedback/shadow_runs.h"

#include <cmath>
#include <optional>

namespace gpueta {

void ShadowRuns::Start(const std::string& device, ShadowRun run) {
  const std::lock_guard lock(mutex_);
  runs_.insert_or_assign(device, std::move(run));
  kernels_.Want(true);
}

void ShadowRuns::ActiveIs(const std::string& device, std::uint64_t profile) {
  const std::lock_guard lock(mutex_);
  const auto it = runs_.find(device);
  if (it == runs_.end() || it->second.against == profile) return;
  runs_.erase(it);
  kernels_.Want(!runs_.empty());
}

void ShadowRuns::Judge(const std::string& device, std::uint64_t active, const Kernel& kernel,
                       const EstimateOptions& options, double active_us, double observed_us) {
  std::optional<ShadowRun> ended;
  ProfileStep step = ProfileStep::kWait;
  {
    const std::lock_guard lock(mutex_);
    const auto it = runs_.find(device);
    if (it == runs_.end() || it->second.against != active) return;
    ShadowRun& run = it->second;
    const auto shadow = run.predictor->EstimateKernel(kernel, options);
    if (!shadow.ok()) return;
    run.losses.Add(std::log(active_us / observed_us), std::log(shadow->latency_us.p50 / observed_us));
    step = NextStep(policy_, run.role, run.losses);
    if (step == ProfileStep::kWait) return;
    ended = std::move(run);
    runs_.erase(it);
    kernels_.Want(!runs_.empty());
  }
  on_step_(*ended, step);
}

std::map<std::string, PairedLosses> ShadowRuns::Losses() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, PairedLosses> losses;
  for (const auto& [device, run] : runs_) losses[device] = run.losses;
  return losses;
}

}  // namespace gpueta
