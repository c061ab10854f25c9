#include "core/predict/predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/ops/launch_floor.h"
#include "core/predict/compiled_table.h"
#include "core/predict/compose.h"
#include "core/predict/wave.h"

namespace gpueta {
namespace {

constexpr std::string_view kFamily = "family";
constexpr std::string_view kKernelAware = "kernel-aware";
constexpr std::string_view kRoofline = "roofline";
constexpr std::array kEstimators = {kFamily, kKernelAware, kRoofline};

// A data sheet says what is possible, not what libraries reach: observed
// latencies are 1 to 3 times the roofline, rarely more than 8 times.
constexpr double kRooflineP90 = 3.0;
constexpr double kRooflineP99 = 8.0;

// How much wider intervals get when a table stands in for another one.
constexpr double kOtherTimingWidening = 1.3;
constexpr double kOtherDTypeWidening = 1.6;

// A configuration answers in place of the family form from this many rows on.
constexpr std::int64_t kMinConfigRows = 12;
// … and only with a mean error this much smaller; that of the configuration is
// of rows it was fitted to, which flatters it.
constexpr double kClearlyBetter = 0.8;
constexpr double kMeanOfDeviation = 0.8;  // mean absolute value of a normal error over its deviation
// One-sided normal quantiles; kernel-aware errors have heavier tails at p99.
constexpr double kZ90 = 1.2816;
constexpr double kZ99 = 3.0;

// Types that stand in for a type without tables, nearest first.
std::span<const DType> RelativesOf(DType dtype) {
  using enum DType;
  static constexpr std::array kOfFp64 = {kFp32, kTf32};
  static constexpr std::array kOfFp32 = {kTf32, kFp16, kBf16, kFp64};
  static constexpr std::array kOfTf32 = {kBf16, kFp16, kFp32};
  static constexpr std::array kOfFp16 = {kBf16, kTf32, kFp8, kInt8, kFp32};
  static constexpr std::array kOfBf16 = {kFp16, kTf32, kFp8, kInt8, kFp32};
  static constexpr std::array kOfFp8 = {kInt8, kBf16, kFp16, kTf32, kFp32};
  static constexpr std::array kOfInt8 = {kFp8, kFp16, kBf16, kTf32, kFp32};
  static constexpr std::array kOfInt4 = {kBf16, kFp16, kFp8, kInt8, kFp32};
  switch (dtype) {
    case kFp64: return kOfFp64;
    case kFp32: return kOfFp32;
    case kTf32: return kOfTf32;
    case kFp16: return kOfFp16;
    case kBf16: return kOfBf16;
    case kFp8: return kOfFp8;
    case kInt8: return kOfInt8;
    case kInt4: break;
  }
  return kOfInt4;
}

// 0 for the same type, then by nearness; nullopt for no relative.
std::optional<int> DistanceOf(DType asked, DType has) {
  if (asked == has) return 0;
  const auto relatives = RelativesOf(asked);
  const auto it = std::find(relatives.begin(), relatives.end(), has);
  if (it == relatives.end()) return std::nullopt;
  return static_cast<int>(it - relatives.begin()) + 1;
}

// Which table answers, and what stands between it and the question.
struct Route {
  const CompiledTable* table = nullptr;  // nullptr: the roofline
  bool own = false;                      // the device's, not the transfer profile's
  Timing timing = Timing::kKernel;       // of the answer
  double widening = 1;                   // of the interval in ln(latency)
  bool exact = false;                    // own table, this very key
};

Provenance Settle(Provenance of_table, const Route& route) {
  if (!route.own) return Provenance::kTransferred;
  // Another dtype or timing of this device is evidence from outside the table.
  return route.exact ? of_table : Provenance::kExtrapolated;
}

double RooflineUs(const Counts& counts, const Machine<double>& machine) {
  return std::max(static_cast<double>(counts.flops.value()) / machine.peak,
                  static_cast<double>(counts.bytes().value()) / machine.bandwidth);
}

// A kernel is launch-bound when neither its operations nor its bytes explain a
// third of its time.
constexpr double kLaunchBoundShare = 1.0 / 3;

Bound BoundOf(const Kernel& kernel, const Counts& counts, const Machine<double>& machine, double us) {
  if (kernel.op() == Op::kCollective) return Bound::kCommunication;
  if (RooflineUs(counts, machine) < kLaunchBoundShare * us) return Bound::kLaunch;
  const double compute = static_cast<double>(counts.flops.value()) / machine.peak;
  return compute >= static_cast<double>(counts.bytes().value()) / machine.bandwidth ? Bound::kCompute : Bound::kMemory;
}

}  // namespace

struct Predictor::State {
  DeviceSpec spec;
  std::shared_ptr<const CompiledProfile> own;
  std::shared_ptr<const CompiledProfile> transfer;
  std::int64_t version = 0;
  std::array<std::array<Machine<double>, kAllDTypes.size()>, kAllDTypes.size()> machines;  // by dtype and kv dtype
  double eager_floor_us = kTypicalEagerFloorUs;
  double host_issue_us = 0;

  const Machine<double>& MachineFor(const TableKey& key) const {
    return machines[static_cast<std::size_t>(key.dtype)][static_cast<std::size_t>(key.kv_dtype)];
  }

  absl::StatusOr<Route> RouteOf(const Kernel& kernel, const EstimateOptions& options) const;
  const KernelConfig* ConfigOf(const Kernel& kernel, const Route& route, const EstimateOptions& options) const;
  Estimate RooflineEstimate(const Kernel& kernel, const Counts& counts, const Machine<double>& machine,
                            Timing timing) const;
  void EvaluateRoute(const Route& route, const TableKey& asked, const VariantChoice& variant, std::uint32_t label_hash,
                     CompiledTable::Input& input, CompiledTable::Output& output) const;
  absl::StatusOr<Estimate> EstimateValid(const Kernel& kernel, const EstimateOptions& options) const;
};

absl::StatusOr<Route> Predictor::State::RouteOf(const Kernel& kernel, const EstimateOptions& options) const {
  Route best;
  best.timing = options.timing.value_or(Timing::kKernel);
  if (options.estimator == kRoofline) return best;
  const TableKey asked = KeyOf(kernel, best.timing);
  int best_cost = std::numeric_limits<int>::max();
  const auto consider = [&](const CompiledTable& table, bool is_own) {
    const TableKey& has = table.table().key;
    if (has.op != asked.op || has.phase != asked.phase) return;
    const auto distance = DistanceOf(asked.dtype, has.dtype);
    if (!distance.has_value()) return;
    const bool other_timing = options.timing.has_value() && has.timing != asked.timing;
    const bool other_kv = asked.op == Op::kAttention && has.kv_dtype != asked.kv_dtype;
    const bool other_backend = !asked.backend.empty() && has.backend != asked.backend;
    // A vector operator of which nothing alike was measured: what operators are
    // like on average says little.
    const bool unlike =
        asked.op == Op::kVector && table.table().variants.size() > 1 && table.ChooseVariant(kernel).index == 0;
    // An operator like the one asked for before the same type, own evidence
    // before others', the same type before the same timing; of equally good
    // tables the one nearest to device time, then the larger one.
    const int cost = (unlike ? 4000 : 0) + (is_own ? 0 : 1000) + (*distance > 0 ? 2000 + 100 * *distance : 0) +
                     (other_backend ? 400 : 0) + (other_kv ? 200 : 0) + (other_timing ? 50 : 0) +
                     10 * (static_cast<int>(Timing::kKernel) - static_cast<int>(has.timing));
    if (cost > best_cost || (cost == best_cost && table.table().rows <= best.table->table().rows)) return;
    best_cost = cost;
    best.table = &table;
    best.own = is_own;
    best.timing = options.timing.value_or(has.timing);
    best.widening = (other_timing ? kOtherTimingWidening : 1) *
                    (*distance > 0 || other_kv || other_backend ? kOtherDTypeWidening : 1);
    best.exact = is_own && *distance == 0 && !other_timing && !other_kv && !other_backend;
  };
  if (own != nullptr) {
    for (const CompiledTable& table : own->tables()) consider(table, true);
  }
  if (transfer != nullptr) {
    for (const CompiledTable& table : transfer->tables()) consider(table, false);
  }
  if (best.table == nullptr && kernel.op() == Op::kCollective) {
    return FailedPrecondition(
        "no measurements of collectives and no link data for {}; publish a profile with collectives", spec.slug);
  }
  return best;
}

// The kernel-aware configuration that answers, or nullptr.
const KernelConfig* Predictor::State::ConfigOf(const Kernel& kernel, const Route& route,
                                               const EstimateOptions& options) const {
  if (options.estimator == kFamily || route.table == nullptr || !route.exact || kernel.launch.kernel.empty())
    return nullptr;
  const auto& configs = route.table->table().kernel_configs;
  const auto it = std::lower_bound(configs.begin(), configs.end(), kernel.launch.kernel,
                                   [](const KernelConfig& c, const std::string& name) { return c.kernel < name; });
  if (it == configs.end() || it->kernel != kernel.launch.kernel) return nullptr;
  if (options.estimator == kKernelAware) return &*it;
  // By itself only where it is known to be clearly better than the family form.
  const double mean_error = kMeanOfDeviation * it->error_ln;
  return it->rows >= kMinConfigRows && mean_error < kClearlyBetter * route.table->table().cv_mape ? &*it : nullptr;
}

Estimate Predictor::State::RooflineEstimate(const Kernel& kernel, const Counts& counts, const Machine<double>& machine,
                                            Timing timing) const {
  Estimate estimate;
  const double us =
      ConvertTiming(RooflineUs(counts, machine) + kKernelFloorUs, Timing::kKernel, timing, eager_floor_us);
  estimate.latency_us = {us, us * kRooflineP90, us * kRooflineP99};
  estimate.provenance = Provenance::kRoofline;
  estimate.estimator = kRoofline;
  estimate.bound = BoundOf(kernel, counts, machine, us);
  return estimate;
}

void Predictor::State::EvaluateRoute(const Route& route, const TableKey& asked, const VariantChoice& variant,
                                     std::uint32_t label_hash, CompiledTable::Input& input,
                                     CompiledTable::Output& output) const {
  const Table& table = route.table->table();
  route.table->Evaluate(MachineFor(asked).As<float>(), variant, label_hash, route.exact, input, output);
  const int rows = input.block.rows;
  if (table.key.timing != route.timing) {
    const float floor = table.key.timing == Timing::kEager ? table.floor_us : static_cast<float>(eager_floor_us);
    for (int r = 0; r < rows; ++r)
      output.p50_us[r] = ConvertTiming(output.p50_us[r], table.key.timing, route.timing, floor);
  }
  for (int r = 0; r < rows; ++r) output.provenance[r] = Settle(output.provenance[r], route);
  if (route.widening == 1) return;
  const auto widening = static_cast<float>(route.widening);
  for (int r = 0; r < rows; ++r) {
    output.p90_factor[r] = math::Pow(output.p90_factor[r], widening);
    output.p99_factor[r] = math::Pow(output.p99_factor[r], widening);
  }
}

absl::StatusOr<Estimate> Predictor::State::EstimateValid(const Kernel& kernel, const EstimateOptions& options) const {
  GPUETA_ASSIGN_OR_RETURN(const Route route, RouteOf(kernel, options));
  const TableKey asked = KeyOf(kernel, route.timing);
  const Machine<double>& machine = MachineFor(asked);
  const Counts counts = CountsOf(kernel);
  if (route.table == nullptr) return RooflineEstimate(kernel, counts, machine, route.timing);

  Estimate estimate;
  CompiledTable::Input input;
  CompiledTable::Output output;
  input.block.rows = kLanes;
  const int dims = DimNamesOf(kernel.op()).size;
  for (int d = 0; d < dims; ++d) {
    const std::int64_t value = GetDim(kernel, d);
    std::fill_n(input.block.dims[d], kLanes, static_cast<float>(value));
    std::fill_n(input.raw[d], kLanes, FoldHash(static_cast<std::uint64_t>(value)));
  }
  const VariantChoice variant = route.table->ChooseVariant(kernel);
  EvaluateRoute(route, asked, variant, FoldHash(LabelHash(kernel)), input, output);
  double p50 = output.p50_us[0];
  double p90_factor = output.p90_factor[0];
  double p99_factor = output.p99_factor[0];
  estimate.provenance = output.provenance[0];
  estimate.estimator = kFamily;
  if (const KernelConfig* config = ConfigOf(kernel, route, options);
      config != nullptr && estimate.provenance != Provenance::kMeasured) {
    if (const auto us = WaveLatencyUs(kernel, machine, *config); us.has_value() && *us > 0) {
      p50 = *us;
      p90_factor = std::exp(kZ90 * config->error_ln);
      p99_factor = std::exp(kZ99 * config->error_ln);
      estimate.estimator = kKernelAware;
    }
  }
  estimate.latency_us = {p50, p50 * p90_factor, p50 * p99_factor};
  estimate.bound = BoundOf(kernel, counts, machine, p50);
  return estimate;
}

namespace {

absl::Status CheckEstimator(const std::string& name) {
  if (name.empty() || std::find(kEstimators.begin(), kEstimators.end(), name) != kEstimators.end())
    return absl::OkStatus();
  return FieldError("estimator", fmt::format("\"{}\" is not one of {}", name, fmt::join(kEstimators, ", ")));
}

std::vector<double> DimsOf(const Kernel& kernel) {
  std::vector<double> dims;
  for (int d = 0; d < DimNamesOf(kernel.op()).size; ++d) dims.push_back(static_cast<double>(GetDim(kernel, d)));
  return dims;
}

// The least an op's rows must satisfy between dims, as Validate has it.
absl::Status CheckRows(const Kernel& prototype, const KernelColumns& columns, std::span<const std::int64_t> defaults) {
  Kernel kernel = prototype;
  const int dims = DimNamesOf(prototype.op()).size;
  const auto at = [&](int d, std::size_t row) {
    const auto& column = columns.dims[static_cast<std::size_t>(d)];
    return column.empty() ? defaults[static_cast<std::size_t>(d)]
                          : static_cast<std::int64_t>(column[column.size() == 1 ? 0 : row]);
  };
  for (int d = 0; d < dims; ++d) {
    const auto& column = columns.dims[static_cast<std::size_t>(d)];
    const auto smallest = static_cast<std::uint32_t>(std::max<std::int64_t>(SmallestDim(prototype.op(), d), 0));
    const auto bad = std::find_if(column.begin(), column.end(), [smallest](std::uint32_t v) { return v < smallest; });
    if (bad != column.end()) {
      return FieldError(
          fmt::format("{}.{}[{}]", Name(prototype.op()), DimNamesOf(prototype.op()).names[static_cast<std::size_t>(d)],
                      bad - column.begin()),
          fmt::format("is {}, must be at least {}", *bad, smallest));
    }
  }
  if (prototype.op() == Op::kCollective) return absl::OkStatus();
  if (prototype.op() == Op::kGemm || prototype.op() == Op::kVector) {
    // No conditions between dims but the size of their product; the exact
    // check is made only where a generous one fails.
    constexpr double kSurelySmall = 1e17;
    double largest = 0;
    for (std::size_t row = 0; row < columns.rows; ++row) {
      double product = 1;
      for (int d = 0; d < dims; ++d) product *= static_cast<double>(at(d, row));
      largest = std::max(largest, product);
    }
    if (largest < kSurelySmall) return absl::OkStatus();
  }
  for (std::size_t row = 0; row < columns.rows; ++row) {
    for (int d = 0; d < dims; ++d) SetDim(kernel, d, at(d, row));
    if (const absl::Status status = Validate(kernel); !status.ok())
      return InField(fmt::format("rows[{}]", row), status);
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const std::string_view> EstimatorNames() { return kEstimators; }

Predictor::Predictor(DeviceSpec spec, std::shared_ptr<const CompiledProfile> own,
                     std::shared_ptr<const CompiledProfile> transfer, std::int64_t version) {
  auto state = std::make_unique<State>();
  state->spec = WithInferredCells(std::move(spec));
  state->own = std::move(own);
  state->transfer = std::move(transfer);
  state->version = version;
  for (DType dtype : kAllDTypes) {
    for (DType kv : kAllDTypes) {
      const TableKey key{.op = Op::kAttention, .dtype = dtype, .kv_dtype = kv};
      state->machines[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(kv)] = MachineOf(state->spec, key);
    }
  }
  if (state->own != nullptr) {
    const Profile& profile = state->own->loaded().profile;
    for (const Table& table : profile.tables) {
      if (table.key.timing == Timing::kEager && table.floor_us > 0) {
        state->eager_floor_us = std::min<double>(state->eager_floor_us, table.floor_us);
      }
    }
    state->host_issue_us = profile.host_issue_us;
  }
  state_ = std::move(state);
}

Predictor::~Predictor() = default;

const DeviceSpec& Predictor::spec() const { return state_->spec; }
const LoadedProfile* Predictor::profile() const { return state_->own == nullptr ? nullptr : &state_->own->loaded(); }
std::int64_t Predictor::version() const { return state_->version; }

absl::StatusOr<Estimate> Predictor::EstimateKernel(const Kernel& kernel, const EstimateOptions& options) const {
  GPUETA_RETURN_IF_ERROR(CheckEstimator(options.estimator));
  GPUETA_RETURN_IF_ERROR(Validate(kernel));
  return state_->EstimateValid(kernel, options);
}

absl::Status Predictor::EstimateColumns(const KernelColumns& columns, const EstimateOptions& options,
                                        ColumnsResult& result) const {
  GPUETA_RETURN_IF_ERROR(CheckEstimator(options.estimator));
  const Kernel& prototype = columns.prototype;
  const Op op = prototype.op();
  const DimNames& names = DimNamesOf(op);
  if (columns.rows == 0) return absl::OkStatus();
  std::array<std::int64_t, kMaxDims> defaults{};
  for (int d = 0; d < names.size; ++d) {
    const auto& column = columns.dims[static_cast<std::size_t>(d)];
    const std::string field = fmt::format("{}.{}", Name(op), names.names[static_cast<std::size_t>(d)]);
    if (column.empty()) {
      const auto otherwise = DefaultDim(op, d);
      if (!otherwise.has_value()) return FieldError(field, "is empty; give one value a row, or one for all rows");
      defaults[static_cast<std::size_t>(d)] = *otherwise;
    } else if (column.size() != 1 && column.size() != columns.rows) {
      return FieldError(
          field, fmt::format("has {} values, must have {} (the number of rows) or 1", column.size(), columns.rows));
    }
  }
  GPUETA_RETURN_IF_ERROR(
      CheckRows(prototype, columns, std::span(defaults).first(static_cast<std::size_t>(names.size))));
  GPUETA_ASSIGN_OR_RETURN(const Route route, state_->RouteOf(prototype, options));
  const TableKey asked = KeyOf(prototype, route.timing);
  // The roofline and the kernel-aware form are scalar.
  const bool scalar = route.table == nullptr || state_->ConfigOf(prototype, route, options) != nullptr;
  result.estimator = route.table == nullptr ? kRoofline : kFamily;

  // One label for all rows, except where a dim is part of it.
  const bool label_varies =
      (op == Op::kVector && columns.dims[2].size() > 1) || (op == Op::kCollective && columns.dims[1].size() > 1);
  Kernel kernel = prototype;
  const auto at = [&](int d, std::size_t row) {
    const auto& column = columns.dims[static_cast<std::size_t>(d)];
    return column.empty() ? defaults[static_cast<std::size_t>(d)]
                          : static_cast<std::int64_t>(column[column.size() == 1 ? 0 : row]);
  };
  const auto store = [&](std::size_t row, double p50, double p90, double p99, Provenance provenance) {
    if (!result.p50_us.empty()) result.p50_us[row] = static_cast<float>(p50);
    if (!result.p90_us.empty()) result.p90_us[row] = static_cast<float>(p90);
    if (!result.p99_us.empty()) result.p99_us[row] = static_cast<float>(p99);
    if (!result.provenance.empty()) result.provenance[row] = provenance;
  };
  if (scalar || label_varies) {
    for (std::size_t row = 0; row < columns.rows; ++row) {
      for (int d = 0; d < names.size; ++d) SetDim(kernel, d, at(d, row));
      GPUETA_ASSIGN_OR_RETURN(const Estimate estimate, state_->EstimateValid(kernel, options));
      store(row, estimate.latency_us.p50, estimate.latency_us.p90, estimate.latency_us.p99, estimate.provenance);
      result.estimator = estimate.estimator;
    }
    return absl::OkStatus();
  }

  for (int d = 0; d < names.size; ++d) SetDim(kernel, d, at(d, 0));
  const VariantChoice variant = route.table->ChooseVariant(kernel);
  const std::uint32_t label_hash = FoldHash(LabelHash(kernel));
  CompiledTable::Input input;
  CompiledTable::Output output;
  for (std::size_t start = 0; start < columns.rows; start += kBlockRows) {
    const std::size_t rows = std::min<std::size_t>(kBlockRows, columns.rows - start);
    const std::size_t padded = (rows + kLanes - 1) / kLanes * kLanes;
    input.block.rows = static_cast<int>(padded);
    for (int d = 0; d < names.size; ++d) {
      const auto& column = columns.dims[static_cast<std::size_t>(d)];
      if (column.size() > 1) {
        for (std::size_t r = 0; r < rows; ++r) {
          const std::uint32_t value = column[start + r];
          input.raw[d][r] = value;
          input.block.dims[d][r] = static_cast<float>(value);
        }
        for (std::size_t r = rows; r < padded; ++r) {
          input.raw[d][r] = input.raw[d][0];
          input.block.dims[d][r] = input.block.dims[d][0];
        }
      } else {
        const std::int64_t value = at(d, 0);
        std::fill_n(input.raw[d], padded, FoldHash(static_cast<std::uint64_t>(value)));
        std::fill_n(input.block.dims[d], padded, static_cast<float>(value));
      }
    }
    state_->EvaluateRoute(route, asked, variant, label_hash, input, output);
    // In double, as for single kernels.
    for (std::size_t r = 0; r < rows; ++r) {
      const double p50 = output.p50_us[r];
      store(start + r, p50, p50 * output.p90_factor[r], p50 * output.p99_factor[r], output.provenance[r]);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphEstimate> Predictor::EstimateGraph(const Graph& graph, const SymbolValues& dims,
                                                       const EstimateOptions& options) const {
  GPUETA_RETURN_IF_ERROR(CheckEstimator(options.estimator));
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, Bind(graph, dims));
  const bool on_cpu = state_->spec.architecture == "CPU";
  EstimateOptions kernel_options = options;
  // A CPU runs what it is called for; a GPU's kernels are summed as device time.
  kernel_options.timing = on_cpu ? Timing::kEager : Timing::kKernel;
  ExecutionModel execution;
  execution.host_issue_us = on_cpu || options.mode == ExecutionMode::kGraph ? 0
                            : state_->host_issue_us > 0                     ? state_->host_issue_us
                                                                            : kTypicalHostIssueUs;
  execution.gap_us = !on_cpu && options.mode == ExecutionMode::kGraph ? kGraphGapUs : 0;
  return ComposeGraph(graph, kernels, execution,
                      [&](const Kernel& kernel) { return state_->EstimateValid(kernel, kernel_options); });
}

absl::StatusOr<RegimeShares> Predictor::Regime(const Kernel& kernel, const EstimateOptions& options) const {
  GPUETA_RETURN_IF_ERROR(CheckEstimator(options.estimator));
  GPUETA_RETURN_IF_ERROR(Validate(kernel));
  GPUETA_ASSIGN_OR_RETURN(const Route route, state_->RouteOf(kernel, options));
  const Machine<double>& machine = state_->MachineFor(KeyOf(kernel, route.timing));
  if (route.table == nullptr) {
    const Counts counts = CountsOf(kernel);
    return SharesOf(machine, [&](const Machine<double>& m) { return RooflineUs(counts, m) + kKernelFloorUs; });
  }
  if (const KernelConfig* config = state_->ConfigOf(kernel, route, options);
      config != nullptr && WaveLatencyUs(kernel, machine, *config).value_or(0) > 0) {
    return SharesOf(machine, [&](const Machine<double>& m) { return WaveLatencyUs(kernel, m, *config).value_or(0); });
  }
  const Table& table = route.table->table();
  const Variant& variant = table.variants[static_cast<std::size_t>(route.table->ChooseVariant(kernel).index)];
  const std::vector<double> theta(variant.theta.begin(), variant.theta.end());
  const std::vector<double> dims = DimsOf(kernel);
  return SharesOf(
      machine, [&](const Machine<double>& m) { return FormLatencyUs(table.key.op, table.key.phase, m, theta, dims); });
}

absl::StatusOr<Explanation> Predictor::Explain(const Kernel& kernel, const EstimateOptions& options) const {
  Explanation out;
  GPUETA_ASSIGN_OR_RETURN(out.estimate, EstimateKernel(kernel, options));
  GPUETA_ASSIGN_OR_RETURN(const Route route, state_->RouteOf(kernel, options));
  const TableKey asked = KeyOf(kernel, route.timing);
  const Machine<double>& machine = state_->MachineFor(asked);
  out.counts = CountsOf(kernel);
  out.roofline_us = RooflineUs(out.counts, machine);
  const auto term = [&out](std::string name, double value) { out.terms.emplace_back(std::move(name), value); };
  term("compute_us at peak", static_cast<double>(out.counts.flops.value()) / machine.peak);
  term("memory_us at peak", static_cast<double>(out.counts.bytes().value()) / machine.bandwidth);
  GPUETA_ASSIGN_OR_RETURN(const RegimeShares shares, Regime(kernel, options));
  term("share of compute", shares.compute);
  term("share of memory", shares.memory);
  term(kernel.op() == Op::kCollective ? "share of communication" : "share of launch and latency", shares.rest);
  if (route.table == nullptr) {
    out.notes.push_back("no table fits: the data sheet's roofline answers");
    return out;
  }
  const Table& table = route.table->table();
  const VariantChoice variant = route.table->ChooseVariant(kernel);
  const Variant& parameters = table.variants[static_cast<std::size_t>(variant.index)];
  out.notes.push_back(fmt::format("table {} of {}, {} measurements", Describe(table.key),
                                  route.own ? "this device" : "other devices", table.rows));
  out.notes.push_back(variant.exact ? fmt::format("parameters of label \"{}\"", parameters.label)
                                    : fmt::format("label \"{}\" was not measured; \"{}\" stands in", LabelOf(kernel),
                                                  parameters.label));
  if (table.key.dtype != asked.dtype)
    out.notes.push_back(fmt::format("{} scaled to {}", Name(table.key.dtype), Name(asked.dtype)));
  if (table.key.timing != route.timing)
    out.notes.push_back(fmt::format("{} converted to {} timing", Name(table.key.timing), Name(route.timing)));
  const std::vector<double> dims = DimsOf(kernel);
  const DimNames& names = DimNamesOf(kernel.op());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const double value = dims[i];
    if (route.exact && (value < table.dim_min[i] || value > table.dim_max[i])) {
      out.notes.push_back(fmt::format("{} = {} is outside the measured {} to {}", names.names[i], value,
                                      table.dim_min[i], table.dim_max[i]));
    }
  }
  const std::vector<double> theta(parameters.theta.begin(), parameters.theta.end());
  term("family form without residual, us", FormLatencyUs(table.key.op, table.key.phase, machine, theta, dims));
  const FormInfo form = FormInfoOf(table.key.op, table.key.phase);
  for (std::size_t i = 0; i < form.params.size(); ++i) term(fmt::format("parameter {}", form.params[i].name), theta[i]);
  if (const KernelConfig* config = state_->ConfigOf(kernel, route, options); config != nullptr) {
    out.notes.push_back(fmt::format("kernel {} with {} measurements, tile {}x{}", config->kernel, config->rows,
                                    config->tile_m, config->tile_n));
    if (const auto r = WaveRegressors(kernel, machine, {config->tile_m, config->tile_n}, config->resident_blocks);
        r.has_value()) {
      term("waves", (*r)[1]);
    }
  }
  return out;
}

}  // namespace gpueta
