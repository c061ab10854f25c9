// Profiles in the shadow of active ones: they predict what was observed, and
// answer nobody.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/feedback/profile_policy.h"
#include "core/predict/predictor.h"
#include "server/feedback/recent_kernels.h"
#include "server/profiles/resource_name.h"

namespace gpueta {

// A profile that is compared with the one that answers for its device.
struct ShadowRun {
  ProfileName name;
  std::shared_ptr<const Predictor> predictor;
  ShadowRole role = ShadowRole::kNew;
  std::uint64_t against = 0;  // the active profile's number
  PairedLosses losses;
};

// One run a device at a time. Safe to use from any thread.
class ShadowRuns {
 public:
  // `on_step` is told when a run ends with something to do; no locks are held.
  using OnStep = std::function<void(const ShadowRun& run, ProfileStep step)>;
  ShadowRuns(ProfilePolicy policy, OnStep on_step) : policy_(policy), on_step_(std::move(on_step)) {}

  // Replaces the device's run.
  void Start(const std::string& device, ShadowRun run);
  // This profile answers now: a run against another one ends.
  void ActiveIs(const std::string& device, std::uint64_t profile);

  RecentKernels& kernels() { return kernels_; }

  // An observation of a kernel: what the active profile predicted without
  // correction, and what happened. Both profiles are asked for `options`.
  void Judge(const std::string& device, std::uint64_t active, const Kernel& kernel, const EstimateOptions& options,
             double active_us, double observed_us);

  std::map<std::string, PairedLosses> Losses() const;

 private:
  ProfilePolicy policy_;
  OnStep on_step_;
  RecentKernels kernels_;
  mutable std::mutex mutex_;
  std::map<std::string, ShadowRun> runs_;
};

}  // namespace gpueta
