// Answers for one device: from its own profile, else from the transfer
// profile, else from its data sheet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/spec.h"
#include "core/device/topology.h"
#include "core/graph/graph.h"
#include "core/ops/kernel.h"
#include "core/predict/as_run.h"
#include "core/predict/correction.h"
#include "core/predict/estimate.h"
#include "core/predict/regime.h"
#include "core/profile/profile.h"
#include "core/profile/whole_model.h"

namespace gpueta {

class CompiledProfile;  // core/predict/compiled_table.h
struct ExecutionModel;  // core/predict/compose.h

struct EstimateOptions {
  // Which time of a kernel is meant; unset: the kind the device's own table was
  // measured in.
  std::optional<Timing> timing;
  // The kind of measurements to rest on where the device has several; unset:
  // those of `timing`. What they say is converted to `timing`.
  std::optional<Timing> measured_in;
  ExecutionMode mode = ExecutionMode::kEager;  // graphs only
  HostRates host;                              // that issues a graph's kernels in eager mode
  // Where collectives run: without, only measured ones are answered.
  std::optional<NodeTopology> topology;
  // A form by name, see EstimatorNames(); empty: the best one.
  std::string estimator;
  // What observations taught about the device; nullptr: nothing. Must outlive
  // the call.
  const Corrections* corrections = nullptr;
};

// A name for the best form, where one must be given.
inline constexpr std::string_view kDefaultEstimator = "default";

// The forms that can be asked for by name.
std::span<const std::string_view> EstimatorNames();

// Rows of one op, dtype and label as arrays.
struct KernelColumns {
  Kernel prototype;  // op, dtype, label and launch.kernel of all rows; its dims are not read
  DimColumns dims;
  std::size_t rows = 0;
};

// Sets the dims of `kernel`, of the columns' op, to those of a row.
void SetRow(const KernelColumns& columns, std::size_t row, Kernel& kernel);

// Caller-owned arrays of `rows` values each; empty spans are not filled.
struct ColumnsResult {
  std::span<float> p50_us;
  std::span<float> p90_us;
  std::span<float> p99_us;
  std::span<Provenance> provenance;
  std::string_view estimator;  // filled in
};

// How an estimate comes about, for people.
struct Explanation {
  Estimate estimate;
  Counts counts;
  double roofline_us = 0;
  std::vector<std::pair<std::string, double>> terms;  // microseconds, or plain numbers by their name
  std::vector<std::string> notes;
};

// How a kernel runs, as far as its launch is known.
struct KernelRun {
  std::string configuration;  // the library's kernel; empty: not known
  double waves = 0;           // of thread blocks over the SMs; 0: not known
};

// Immutable; safe to use from any thread. Where tables answer, the three calls
// for kernels do not allocate.
class Predictor {
 public:
  struct State;  // predictor_state.h

  // Either profile may be null.
  Predictor(DeviceSpec spec, std::shared_ptr<const CompiledProfile> own,
            std::shared_ptr<const CompiledProfile> transfer, std::int64_t version = 0);
  ~Predictor();

  // For a part of this device (core/device/slice.h): its tables, evaluated at
  // the slice's SMs, bandwidth and caches, answer with wider intervals as
  // `transferred`. INVALID_ARGUMENT as SliceOf. Takes as long as building a predictor.
  absl::StatusOr<std::shared_ptr<const Predictor>> Slice(std::string_view slice) const;

  const DeviceSpec& spec() const;
  const LoadedProfile* profile() const;  // nullptr: answers from transfer and data sheet
  // What other devices taught, moved to this one; nullptr without a transfer
  // profile.
  const Profile* transferred() const;
  std::int64_t version() const;

  // INVALID_ARGUMENT for a kernel that Validate refuses or an unknown
  // estimator; FAILED_PRECONDITION when nothing can answer (a collective on a
  // device whose collectives nobody measured, without a topology).
  absl::StatusOr<Estimate> EstimateKernel(const Kernel& kernel, const EstimateOptions& options = {}) const;

  // The same numbers as EstimateKernel row by row, to the bit. Errors name the
  // row.
  absl::Status EstimateColumns(const KernelColumns& columns, const EstimateOptions& options,
                               ColumnsResult& result) const;

  // Kernels of any ops, in any order, evaluated family by family. The same
  // numbers as EstimateKernel one by one, to the bit. `estimates` holds as many
  // as `kernels`. Errors name the kernel.
  absl::Status EstimateKernels(std::span<const Kernel> kernels, const EstimateOptions& options,
                               std::span<Estimate> estimates) const;

  // The whole graph: kernels in order on one stream.
  absl::StatusOr<GraphEstimate> EstimateGraph(const Graph& as_written, const SymbolValues& dims,
                                              const EstimateOptions& options = {}) const;

  // How EstimateGraph asks for its kernels, and how it composes them.
  EstimateOptions KernelOptionsOf(const EstimateOptions& of_graph) const;
  ExecutionModel ExecutionOf(const EstimateOptions& of_graph) const;

  // Of the form that answers, before its learnt residual and any conversion of
  // dtype's or timing's kind. Errors as EstimateKernel.
  absl::StatusOr<RegimeShares> Regime(const Kernel& kernel, const EstimateOptions& options = {}) const;

  // By the kernel's own launch, and the configuration measured of it. Errors as
  // EstimateKernel.
  absl::StatusOr<KernelRun> RunOf(const Kernel& kernel, const EstimateOptions& options = {}) const;

  absl::StatusOr<Explanation> Explain(const Kernel& kernel, const EstimateOptions& options = {}) const;

 private:
  absl::StatusOr<GraphEstimate> EstimateByKernels(const Graph& graph, const std::vector<Kernel>& kernels,
                                                  const SymbolValues& dims, const EstimateOptions& options) const;
  explicit Predictor(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace gpueta
