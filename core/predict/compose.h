// From the latencies of kernels to the latency of a graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/predict/estimate.h"
#include "core/predict/schedule.h"
#include "core/profile/whole_model.h"

namespace gpueta {

// Host time to issue one kernel in eager mode where it was not measured. From
// fits to public whole-model measurements (docs/accuracy.md).
inline constexpr double kTypicalHostIssueUs = 6.0;

// The form that answers by what whole models taught.
inline constexpr std::string_view kWholeModelEstimator = "whole-model";

struct ExecutionModel {
  double host_issue_us = 0;  // for each kernel; 0: the host is never late
  double gap_us = 0;         // between two kernels
  // What whole models taught of the machine: then the host's time comes from
  // there, and a step copies its inputs to the device.
  std::shared_ptr<const LearntMachine> learnt;
  double input_bytes = 0;
  double copy_us = 0;  // of the inputs, where nothing was learnt but the host's link is known
};

// What a part belongs to whose kernels share errors: the op, and of attention
// the phase.
using KernelFamily = std::pair<Op, Attention::Phase>;
KernelFamily FamilyOf(const Kernel& kernel);
// Of the variance of a kernel's error this much is its own; the rest is shared
// by its family.
inline constexpr double kOwnErrorShare = 0.7;

// Σ of kernels' errors in any one unit, each kernel with all its repetitions.
class ErrorSum {
 public:
  void Add(const Kernel& kernel, double spread);
  // √(0.7·Σ spread² + 0.3·Σ_family(Σ spread)²)
  double Combined() const;

 private:
  double own_ = 0;
  std::map<KernelFamily, double> shared_;
};

// Kernels one after the other, the host issuing them meanwhile; hidden ones take
// no device time. Device total D and host total H combine as (D^2.3 + H^2.3)^(1/2.3), which
// did better on public data than an ordered recursion.
//
// Of a learnt machine a step's fixed time and the copy of its inputs come on top.
//
// Intervals: each kernel's error has a part it shares with its family on this
// device and a part of its own, S² = 0.7·Σ(w·s)² + 0.3·Σ_family(Σ w·s)² with w
// the share of the kernels' sum and s the half-width in ln; repetitions of one
// kernel share their error. A quantile of the total is the combination with the
// kernels' sum times e^S. What is not known of a learnt machine, and what the
// form errs by on machines it knows, is an error all its parts share.
GraphEstimate ComposeParts(std::vector<GraphPart> parts, const ExecutionModel& execution);

// Parts found by what they compute: kernels that differ in name only are one.
class PartsByWork {
 public:
  // `parts` must outlive this and may grow; each new part is told by Add.
  explicit PartsByWork(const std::vector<GraphPart>& parts) : parts_(parts) {}
  void Add(std::size_t part);
  std::optional<std::size_t> Find(const Kernel& kernel) const;

 private:
  const std::vector<GraphPart>& parts_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
};

// The same of a graph's nodes on the critical path of its step
// (core/predict/schedule.h), with its memory and warnings; kernels with the same
// work become one part, which is estimated once. Where collectives run beside
// other kernels, a quantile is also that of the step in which all collectives
// are that much slower.
absl::StatusOr<GraphEstimate> ComposeGraph(
    const Graph& graph, const std::vector<Kernel>& kernels, const ExecutionModel& execution,
    const std::function<absl::StatusOr<Estimate>(const Kernel&)>& estimate_kernel);

// What a node takes: nodes' kernels are parts of `parts` by their work.
NodeTimes NodeTimesOf(const Graph& graph, const std::vector<Kernel>& kernels, const std::vector<GraphPart>& parts,
                      const ExecutionModel& execution);

// Parameters, gradients, optimiser state, caches of keys and values that are
// decoded from, and the largest sum of live activations, in bytes, of the device
// that needs most: stage s of a pipeline of p that trains holds the activations of
// min(p − s, microbatches) forward passes. What a parameter's gradient is reduced
// or gathered into once a step lies in these already.
std::int64_t MemoryBytes(const Graph& graph, const std::vector<Kernel>& kernels);

}  // namespace gpueta
