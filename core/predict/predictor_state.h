// What a predictor holds, and the steps that single kernels, columns and
// batches share. Private to core/predict.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "core/ops/launch_floor.h"
#include "core/predict/compose.h"
#include "core/predict/predictor.h"
#include "core/predict/route.h"
#include "core/profile/whole_model.h"

namespace gpueta {

inline constexpr std::string_view kFamilyEstimator = "family";
inline constexpr std::string_view kKernelAwareEstimator = "kernel-aware";
inline constexpr std::string_view kLaunchEstimator = "launch";
inline constexpr std::string_view kRooflineEstimator = "roofline";
inline constexpr std::string_view kInterGpuEstimator = "inter-gpu";
inline constexpr std::string_view kKernelWiseEstimator = "kernel-wise";
inline constexpr std::string_view kLayerWiseEstimator = "layer-wise";

inline constexpr std::string_view kEndToEndEstimator = "end-to-end";

// Whether a name is one of the ladder's lines of kernels (core/profile/ladder.h).
constexpr bool IsLine(std::string_view estimator) {
  return estimator == kInterGpuEstimator || estimator == kKernelWiseEstimator || estimator == kLayerWiseEstimator;
}

// Whether kernels are asked one at a time: tables do not answer.
constexpr bool IsAskedSingly(std::string_view estimator) {
  return IsLine(estimator) || estimator == kWholeModelEstimator || estimator == kEndToEndEstimator;
}

// max(FLOPs over peak, bytes over bandwidth), in µs.
double RooflineUs(const Counts& counts, const Machine<double>& machine);

Bound BoundOf(Op op, const Counts& counts, const Machine<double>& machine, double us);

absl::Status CheckEstimator(const std::string& name);

// A question that a table answers: the same for all rows of a column.
struct Question {
  Route route;
  VariantChoice variant;
  std::uint64_t label_hash = 0;
  const Machine<float>* machine = nullptr;
  const CorrectionCurve* correction = nullptr;  // nullptr: none
};

// Whether eager calls of the device answer for what is no such call. What a call
// costs where none was timed is a guess by other hosts: all of it comes off.
inline bool TakesFloorOff(const Question& question) {
  return question.route.own && question.route.table->table().key.timing == Timing::kEager &&
         question.route.timing != Timing::kEager;
}

struct Predictor::State {
  State(DeviceSpec device, std::shared_ptr<const CompiledProfile> own_profile,
        std::shared_ptr<const CompiledProfile> transfer_profile, std::int64_t profile_version, bool slice = false);

  DeviceSpec spec;
  std::shared_ptr<const CompiledProfile> own;
  std::shared_ptr<const CompiledProfile> unmoved;   // what devices have in common
  std::shared_ptr<const CompiledProfile> transfer;  // the same, moved to this device
  bool is_slice = false;                            // of the device that `own` is of
  std::int64_t version = 0;
  template <class T>
  using Machines = std::array<std::array<Machine<T>, kAllDTypes.size()>, kAllDTypes.size()>;
  Machines<double> machines;  // by dtype and kv dtype
  Machines<float> float_machines;
  // By dtype and that of the table that stands in: kernels of few bits whose sums
  // the table's kernels round do so, too, before they write them.
  Machines<float> stand_in_machines;
  Routes routes;
  double eager_floor_us = kTypicalEagerFloorUs;
  double host_issue_us = 0;
  // What whole models taught of this device, or of others; null: nothing.
  std::shared_ptr<const LearntMachine> learnt_machine;

  const Machine<double>& MachineFor(const Kernel& kernel) const;

  // A question without a table is the roofline's. FAILED_PRECONDITION when
  // nothing can answer.
  absl::StatusOr<Question> Ask(const Kernel& kernel, const EstimateOptions& options) const;
  // The kernel-aware configuration that answers, or nullptr.
  const KernelConfig* ConfigOf(const Kernel& kernel, const Route& route, const EstimateOptions& options) const;
  // What answers in place of the table where the kernel's launch is known, if
  // anything does: quantiles and the form's name.
  struct OfLaunch {
    Quantiles latency_us;
    std::string_view estimator;
  };
  std::optional<OfLaunch> AnswerOfLaunch(const Kernel& kernel, const Question& question,
                                         const EstimateOptions& options) const;
  // Whether that may answer: then kernels are estimated one at a time.
  bool MayAskLaunch(const Kernel& kernel, const Route& route, const EstimateOptions& options) const;
  // The line of that name for the kernel, and the table it is of: of the kind of
  // timing asked for, else of another.
  struct Line {
    const Table* table = nullptr;
    const LadderLine* form = nullptr;
  };
  std::optional<Line> LineOf(std::string_view estimator, const Kernel& kernel, const EstimateOptions& options) const;
  // FAILED_PRECONDITION, listing the estimators there are, without such a line.
  absl::StatusOr<Estimate> EstimateByLine(const Kernel& kernel, const Counts& counts,
                                          const EstimateOptions& options) const;
  // A graph by its FLOPs alone; each kernel has its share of them.
  // FAILED_PRECONDITION, listing what there is, without a line for such steps, for
  // graphs of several devices, and for those without convolution and product.
  absl::StatusOr<GraphEstimate> EstimateEndToEnd(const Graph& graph, const std::vector<Kernel>& kernels,
                                                 ExecutionMode mode) const;
  // Evaluates the rows in `input`. `work_us`: each row's RooflineUs where
  // TakesFloorOff, else not read.
  void Answer(const Question& question, const float* work_us, CompiledTable::Input& input,
              CompiledTable::Output& output) const;
  // The same by one set of parameters.
  void AnswerBy(const VariantChoice& variant, const Question& question, const float* work_us,
                CompiledTable::Input& input, CompiledTable::Output& output) const;
  // Whether a kernel of a model that runs eagerly is better answered by what
  // whole models taught: where the device's own tables do not answer.
  bool AnswersAsRun(const Kernel& kernel, const EstimateOptions& options) const;
  // Device time of a kernel in a model that runs. `learnt_machine` must not be null.
  Estimate EstimateAsRun(const Kernel& kernel, const Counts& counts, const EstimateOptions& options) const;
  // A collective in the topology of `options`: by the device's own table inside
  // a node, by links elsewhere.
  absl::StatusOr<Estimate> EstimateCollective(const Kernel& kernel, const Counts& counts,
                                              const EstimateOptions& options) const;
  // A kernel that is known to be valid, and its counts.
  absl::StatusOr<Estimate> EstimateValid(const Kernel& kernel, const Counts& counts,
                                         const EstimateOptions& options) const;
};

}  // namespace gpueta
