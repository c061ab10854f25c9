// One calibration: plan, measure, fit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibration/backends/backend.h"
#include "calibration/backends/timing.h"
#include "calibration/worker/journal.h"
#include "core/measurements/measurements.h"
#include "core/profile/profile.h"

namespace gpueta {

struct CalibrationOptions {
  std::size_t budget = 400;       // distinct kernels to measure, those of the workload included
  double time_budget_us = 600e6;  // after this long, what there is is fitted
  // Models, each its kernels in order: run first, as a whole, so that each kernel
  // is timed among its neighbours.
  std::vector<std::vector<Kernel>> workload;
  std::vector<Kernel> asked;  // measured whatever is chosen besides, if the backend can; part of the budget
  // Of so many of the kernels chosen, those are measured besides that the library could have
  // run instead (algorithms.h), after all others and on top of the budget.
  std::size_t algorithm_shapes = 0;
  std::uint64_t seed = 0;
  // What other devices taught, for the fit (FitOptions::base); null: nothing.
  const Profile* base = nullptr;
  // Called before each model of the workload and each kernel; returns when it may be measured (turn.h).
  std::function<absl::Status()> wait_turn;
  // Where each kernel is written as soon as it is measured, and what is written there
  // already is not measured again; null: nowhere. Models of the workload are run anyway.
  Journal* journal = nullptr;
  std::optional<TimingPolicy> timing;  // unset: the backend's own
  // Share done (of budget or time, whichever is further) and what is measured.
  std::function<void(double share, const std::string& what)> progress;
};

struct Calibration {
  Profile profile;
  std::vector<Measurement> measurements;
  // By algorithms that the library did not choose: of the shapes, but not what they take.
  std::vector<Measurement> alternatives;
  std::size_t disturbed = 0;  // measured again
  std::size_t given_up = 0;   // left out: disturbed both times, or not in the state that most were, of asked ones
  bool slowed = false;        // the device was in its slower state most of the time
  bool shared = false;        // most of the time something else ran, and its turns are part of the latencies
  std::vector<std::string> skipped;  // kernels that could not be run, with the reason
};

// Runs the workload, then chooses of the candidates by table, measures them in random order
// (so that running out of time leaves no op out) and fits a profile.
// INVALID_ARGUMENT when nothing could be measured; DEADLINE_EXCEEDED when a kernel
// hangs, after which only another process can use the device; errors of wait_turn and
// the journal.
absl::StatusOr<Calibration> Calibrate(Backend& backend, const DeviceSpec& spec, const std::vector<Kernel>& candidates,
                                      const CalibrationOptions& options, const MicrosecondClock& clock);

}  // namespace gpueta
