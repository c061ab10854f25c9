#include "core/predict/predictor_state.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/ops/forms.h"
#include "core/predict/compose.h"
#include "core/predict/launch_residual.h"
#include "core/predict/link_model.h"
#include "core/predict/row_loops.h"
#include "core/predict/wave.h"
#include "core/profile/ladder.h"
#include "core/profile/transfer.h"

namespace gpueta {
namespace {

constexpr std::array kEstimators = {kFamilyEstimator,     kLaunchEstimator,    kKernelAwareEstimator,
                                    kKernelWiseEstimator, kLayerWiseEstimator, kEndToEndEstimator,
                                    kWholeModelEstimator, kInterGpuEstimator,  kRooflineEstimator};

// What the whole-model form errs by on a single kernel, in ln: whole models are
// what it was fitted to.
constexpr double kAsRunKernelLn = 0.35;

// A data sheet says what is possible, not what libraries reach: observed
// latencies are 1 to 3 times the roofline, rarely more than 8 times.
constexpr double kRooflineP90 = 3.0;
constexpr double kRooflineP99 = 8.0;

// A configuration answers in place of the family form from this many rows on.
constexpr std::int64_t kMinConfigRows = 12;
// … and only with a mean error this much smaller; that of the configuration is
// of rows it was fitted to, which flatters it.
constexpr double kClearlyBetter = 0.8;
constexpr double kMeanOfDeviation = 0.8;  // mean absolute value of a normal error over its deviation
// One-sided normal quantiles; kernel-aware errors have heavier tails at p99.
constexpr double kZ90 = 1.2816;
constexpr double kZ99 = 3.0;

// A kernel is launch-bound when neither its operations nor its bytes explain a
// third of its time.
constexpr double kLaunchBoundShare = 1.0 / 3;

Provenance Settle(Provenance of_table, const Route& route) {
  if (!route.own) return Provenance::kTransferred;
  if (route.table->table().transferred && of_table != Provenance::kMeasured) return Provenance::kTransferred;
  // Another dtype or timing of this device is evidence from outside the table.
  return route.exact ? of_table : Provenance::kExtrapolated;
}

// Sets the quantiles and the correction from what they are without one.
void SetLatency(double p50, double p90_factor, double p99_factor, const CorrectionCurve* correction,
                Estimate& estimate) {
  if (correction != nullptr) {  // in floats, as columns do
    auto us = static_cast<float>(p50);
    float factor = 1;
    CorrectRows(*correction, 1, &us, &factor);
    p50 = us;
    estimate.correction = factor;
  }
  estimate.latency_us = {p50, p50 * p90_factor, p50 * p99_factor};
}

// What an eager call costs without work: the terms of its form that no work is
// in, where they exceed the quickest call of the table. A linear layer's call
// goes through more of the framework and its library than a batched product's.
float EagerFloorUs(const Table& table, const Variant& variant) {
  const std::span<const ParamSpec> params = FormInfoOf(table.key.op, table.key.phase).params;
  float fixed_us = 1;
  for (std::size_t p = 0; p < params.size(); ++p) {
    if (params[p].name == "fixed_us" || params[p].name == "fixed_factor") fixed_us *= variant.theta[p];
  }
  return std::max(table.floor_us, fixed_us);
}

// A pooled profile's tables, moved to the device. What was fitted to no devices
// in particular stays as it is.
std::shared_ptr<const CompiledProfile> MovedTo(const DeviceSpec& spec, std::shared_ptr<const CompiledProfile> pooled) {
  if (pooled == nullptr || pooled->loaded().profile.pool.empty()) return pooled;
  const LoadedProfile& loaded = pooled->loaded();
  return std::make_shared<const CompiledProfile>(
      LoadedProfile{TransferTo(loaded.profile, spec), loaded.id, loaded.size_bytes});
}

// What whole models taught of a device: its own times of them, or else other
// devices' with what was measured of its host.
WholeModel LearntFrom(const CompiledProfile* own, const CompiledProfile* transfer) {
  if (own != nullptr && !own->loaded().profile.whole_model.empty()) return own->loaded().profile.whole_model;
  if (transfer == nullptr || transfer->loaded().profile.whole_model.empty()) return {};
  const WholeModel& learnt = transfer->loaded().profile.whole_model;
  if (own == nullptr) return learnt;
  const Profile& profile = own->loaded().profile;
  return InHost(learnt, {profile.host_issue_us, profile.host_copy_gb_s});
}

Estimate RooflineEstimate(const Kernel& kernel, const Counts& counts, const Machine<double>& machine,
                          const Question& question, double eager_floor_us) {
  Estimate estimate;
  const double us = ConvertTiming(RooflineUs(counts, machine) + kKernelFloorUs, Timing::kKernel, question.route.timing,
                                  eager_floor_us, kKernelFloorUs);
  SetLatency(us, kRooflineP90, kRooflineP99, question.correction, estimate);
  estimate.provenance = Provenance::kRoofline;
  estimate.estimator = kRooflineEstimator;
  estimate.bound = BoundOf(kernel.op(), counts, machine, us);
  return estimate;
}

// Where a kernel's machine stands: by dtype and kv dtype.
std::pair<std::size_t, std::size_t> MachinePlace(const Kernel& kernel) {
  const auto* attention = std::get_if<Attention>(&kernel.work);
  const DType kv = attention != nullptr ? attention->kv_dtype : DType::kFp32;
  return {static_cast<std::size_t>(kernel.dtype), static_cast<std::size_t>(kv)};
}

}  // namespace

std::span<const std::string_view> EstimatorNames() { return kEstimators; }

double RooflineUs(const Counts& counts, const Machine<double>& machine) {
  return std::max(static_cast<double>(counts.flops.value()) / machine.peak,
                  static_cast<double>(counts.bytes().value()) / machine.bandwidth);
}

Bound BoundOf(Op op, const Counts& counts, const Machine<double>& machine, double us) {
  if (op == Op::kCollective) return Bound::kCommunication;
  const double compute = static_cast<double>(counts.flops.value()) / machine.peak;
  const double memory = static_cast<double>(counts.bytes().value()) / machine.bandwidth;
  if (std::max(compute, memory) < kLaunchBoundShare * us) return Bound::kLaunch;
  return compute >= memory ? Bound::kCompute : Bound::kMemory;
}

absl::Status CheckEstimator(const std::string& name) {
  if (name.empty() || std::find(kEstimators.begin(), kEstimators.end(), name) != kEstimators.end())
    return absl::OkStatus();
  return FieldError("estimator",
                    fmt::format("\"{}\" is not one of {}, {}", name, kDefaultEstimator, fmt::join(kEstimators, ", ")));
}

Predictor::State::State(DeviceSpec device, std::shared_ptr<const CompiledProfile> own_profile,
                        std::shared_ptr<const CompiledProfile> transfer_profile, std::int64_t profile_version,
                        bool slice)
    : spec(WithInferredCells(std::move(device))),
      own(std::move(own_profile)),
      unmoved(std::move(transfer_profile)),
      transfer(MovedTo(spec, unmoved)),
      is_slice(slice),
      version(profile_version),
      routes(own.get(), transfer.get(), spec, slice) {
  for (DType dtype : kAllDTypes) {
    for (DType kv : kAllDTypes) {
      const auto i = static_cast<std::size_t>(dtype), j = static_cast<std::size_t>(kv);
      machines[i][j] = MachineOf(spec, {.op = Op::kAttention, .dtype = dtype, .kv_dtype = kv});
      float_machines[i][j] = machines[i][j].As<float>();
    }
  }
  for (DType dtype : kAllDTypes) {
    for (DType has : kAllDTypes) {
      Machine<float>& machine = stand_in_machines[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(has)];
      machine = float_machines[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(DType::kFp32)];
      if (BitsOf(dtype).activation <= 16)
        machine.out_bytes = std::min(machine.out_bytes, static_cast<float>(BitsOf(has).output) / 8);
    }
  }
  if (WholeModel learnt = LearntFrom(own.get(), transfer.get()); !learnt.empty())
    learnt_machine = std::make_shared<const LearntMachine>(spec, std::move(learnt));
  if (own == nullptr) return;
  const Profile& profile = own->loaded().profile;
  for (const Table& table : profile.tables) {
    if (table.key.timing == Timing::kEager && table.floor_us > 0)
      eager_floor_us = std::min<double>(eager_floor_us, table.floor_us);
  }
  host_issue_us = profile.host_issue_us;
}

const Machine<double>& Predictor::State::MachineFor(const Kernel& kernel) const {
  const auto [dtype, kv] = MachinePlace(kernel);
  return machines[dtype][kv];
}

absl::StatusOr<Question> Predictor::State::Ask(const Kernel& kernel, const EstimateOptions& options) const {
  Question question;
  if (options.corrections != nullptr && !options.corrections->Of(kernel.op()).IsNone())
    question.correction = &options.corrections->Of(kernel.op());
  if (options.estimator == kRooflineEstimator) {
    question.route.timing = options.timing.value_or(Timing::kKernel);
    return question;
  }
  question.label_hash = LabelHash(kernel);
  question.route =
      routes.Find(kernel, question.label_hash, options.measured_in.has_value() ? options.measured_in : options.timing);
  if (options.measured_in.has_value() && options.timing.has_value()) {
    question.route = question.route.For(*options.timing);
  }
  if (question.route.table == nullptr) {
    if (kernel.op() != Op::kCollective || options.topology.has_value()) return question;
    return FailedPrecondition(
        "no measurements of collectives and no link data for {}; say how its devices are connected (--node, "
        "options.topology) or publish a profile with collectives",
        spec.slug);
  }
  question.variant = question.route.table->ChooseVariant(kernel, question.label_hash);
  // Of two estimates that rest on other devices the smaller one is likely too small.
  if (question.variant.batched >= 0 && (!question.route.own || question.route.table->table().transferred))
    question.variant = {};
  const auto [dtype, kv] = MachinePlace(kernel);
  const DType has = question.route.table->table().key.dtype;
  question.machine = has == kernel.dtype || kernel.op() == Op::kAttention
                         ? &float_machines[dtype][kv]
                         : &stand_in_machines[dtype][static_cast<std::size_t>(has)];
  return question;
}

const KernelConfig* Predictor::State::ConfigOf(const Kernel& kernel, const Route& route,
                                               const EstimateOptions& options) const {
  if (options.estimator == kFamilyEstimator || route.table == nullptr || !route.exact || !TellsLaunch(kernel))
    return nullptr;
  const KernelConfig* config = FindConfig(route.table->table().kernel_configs, ConfigurationOf(kernel));
  if (config == nullptr || options.estimator == kKernelAwareEstimator) return config;
  // By itself only where it is known to be clearly better than the family form.
  const double mean_error = kMeanOfDeviation * config->error_ln;
  return config->rows >= kMinConfigRows && mean_error < kClearlyBetter * route.table->table().cv_mape ? config
                                                                                                      : nullptr;
}

std::optional<Predictor::State::OfLaunch> Predictor::State::AnswerOfLaunch(const Kernel& kernel,
                                                                           const Question& question,
                                                                           const EstimateOptions& options) const {
  const Route& route = question.route;
  if (!MayAskLaunch(kernel, route, options)) return std::nullopt;
  const Machine<double>& machine = MachineFor(kernel);
  if (options.estimator != kKernelAwareEstimator) {
    const auto learnt = LatencyOfLaunch(route.table->table(), question.variant.index, kernel, machine);
    if (learnt.has_value()) return OfLaunch{*learnt, kLaunchEstimator};
  }
  const KernelConfig* config = ConfigOf(kernel, route, options);
  if (config == nullptr) return std::nullopt;
  const auto us = WaveLatencyUs(kernel, machine, *config);
  if (!us.has_value() || *us <= 0) return std::nullopt;
  return OfLaunch{{*us, *us * std::exp(kZ90 * config->error_ln), *us * std::exp(kZ99 * config->error_ln)},
                  kKernelAwareEstimator};
}

std::optional<Predictor::State::Line> Predictor::State::LineOf(std::string_view estimator, const Kernel& kernel,
                                                               const EstimateOptions& options) const {
  const CompiledProfile* profile = estimator == kInterGpuEstimator ? transfer.get() : own.get();
  if (profile == nullptr) return std::nullopt;
  const auto lines_of = [&](const Table& table) -> const std::vector<LadderLine>& {
    return estimator == kInterGpuEstimator    ? table.inter_gpu
           : estimator == kLayerWiseEstimator ? table.layer_wise
                                              : table.kernel_wise;
  };
  const Table* best = nullptr;
  int best_rank = 0;
  for (const Table& table : profile->loaded().profile.tables) {
    if (table.key != KeyOf(kernel, table.key.timing) || lines_of(table).empty()) continue;
    const int rank = table.key.timing == options.measured_in ? 3 : table.key.timing == options.timing ? 2 : 1;
    if (rank > best_rank) best = &table;
    best_rank = std::max(best_rank, rank);
  }
  if (best == nullptr) return std::nullopt;
  const std::vector<LadderLine>& lines = lines_of(*best);
  for (const std::string& name : {kernel.launch.kernel, LabelOf(kernel)}) {
    const auto it =
        std::find_if(lines.begin(), lines.end(), [&](const LadderLine& line) { return line.label == name; });
    if (it != lines.end()) return Line{best, &*it};
  }
  return Line{best, &lines.front()};
}

absl::StatusOr<Estimate> Predictor::State::EstimateByLine(const Kernel& kernel, const Counts& counts,
                                                          const EstimateOptions& options) const {
  const std::optional<Line> line = LineOf(options.estimator, kernel, options);
  if (!line.has_value()) {
    std::vector<std::string_view> there = {"default"};
    for (const std::string_view name : kEstimators) {
      if (name == kEndToEndEstimator) continue;  // says nothing of kernels
      if (name == kWholeModelEstimator ? learnt_machine != nullptr
                                       : !IsLine(name) || LineOf(name, kernel, options).has_value())
        there.push_back(name);
    }
    return FailedPrecondition("no {} form of {} for {}: {}; there are {}", options.estimator,
                              Describe(KeyOf(kernel, options.timing.value_or(Timing::kKernel))), spec.slug,
                              options.estimator == kInterGpuEstimator
                                  ? "fit a transfer profile to such kernels of several devices"
                                  : "fit a profile to such kernels of the device",
                              fmt::join(there, ", "));
  }
  const Table& table = *line->table;
  const Timing timing = options.timing.value_or(table.key.timing);
  const double hidden_us = options.estimator == kInterGpuEstimator
                               ? kKernelFloorUs
                               : HiddenUs(RooflineUs(counts, MachineFor(kernel)), eager_floor_us);
  const double us = ConvertTiming(
      LadderLineUs(*line->form, kernel, spec), table.key.timing, timing,
      table.key.timing == Timing::kEager && table.floor_us > 0 ? table.floor_us : eager_floor_us, hidden_us);
  Estimate estimate;
  estimate.latency_us = {us, us * kRooflineP90, us * kRooflineP99};
  estimate.provenance = Provenance::kTransferred;
  if (options.estimator != kInterGpuEstimator && !is_slice) {
    const DimNames& names = DimNamesOf(kernel.op());
    estimate.provenance = Provenance::kInterpolated;
    for (int d = 0; d < names.size; ++d) {
      const auto dim = static_cast<double>(GetDim(kernel, d));
      const auto i = static_cast<std::size_t>(d);
      if (dim < table.dim_min[i] || dim > table.dim_max[i]) estimate.provenance = Provenance::kExtrapolated;
    }
  }
  // Static storage.
  estimate.estimator = *std::find(kEstimators.begin(), kEstimators.end(), options.estimator);
  estimate.bound = BoundOf(kernel.op(), counts, MachineFor(kernel), us);
  return estimate;
}

bool Predictor::State::MayAskLaunch(const Kernel& kernel, const Route& route, const EstimateOptions& options) const {
  if (options.estimator == kFamilyEstimator || route.table == nullptr || !route.exact || !TellsLaunch(kernel))
    return false;
  return !route.table->table().launch_residual.weights.empty() || ConfigOf(kernel, route, options) != nullptr;
}

void Predictor::State::Answer(const Question& question, const float* work_us, CompiledTable::Input& input,
                              CompiledTable::Output& output) const {
  AnswerBy(question.variant, question, work_us, input, output);
  if (question.variant.batched < 0) return;
  CompiledTable::Output batched;
  CompiledTable::Input sliced = input;  // columns that are constant are loaded once for all blocks
  CompiledTable::CutIntoSlices(*question.machine, sliced.block);
  AnswerBy({.index = question.variant.batched}, question, work_us, sliced, batched);
  for (int r = 0; r < input.block.rows; ++r) {
    if (batched.p50_us[r] >= output.p50_us[r]) continue;
    output.p50_us[r] = batched.p50_us[r];
    output.p90_factor[r] = batched.p90_factor[r];
    output.p99_factor[r] = batched.p99_factor[r];
    output.provenance[r] = batched.provenance[r];
  }
}

void Predictor::State::AnswerBy(const VariantChoice& variant, const Question& question, const float* work_us,
                                CompiledTable::Input& input, CompiledTable::Output& output) const {
  const Route& route = question.route;
  const Table& table = route.table->table();
  const int rows = input.block.rows;
  CompiledTable::Output wide;
  const bool narrows = route.narrowing != Route::Narrowing::kNone;
  if (narrows) {
    const auto dtype = static_cast<std::size_t>(table.key.dtype), kv = static_cast<std::size_t>(table.key.kv_dtype);
    route.table->Evaluate(float_machines[dtype][kv], variant, question.label_hash, false, input, wide);
  }
  route.table->Evaluate(*question.machine, variant, question.label_hash, route.repeats, input, output);
  if (narrows) MixNarrowRows(route.narrowing, rows, output.p50_us, wide.p50_us);
  if (route.exact) {
    if (!table.transferred) return;
    for (int r = 0; r < rows; ++r) output.provenance[r] = Settle(output.provenance[r], route);
    return;
  }
  if (table.key.timing != route.timing) {
    const float floor = table.key.timing == Timing::kEager
                            ? EagerFloorUs(table, table.variants[static_cast<std::size_t>(variant.index)])
                            : static_cast<float>(eager_floor_us);
    alignas(64) static constexpr float kNoWork[kBlockRows] = {};
    ConvertTimingRows(table.key.timing, route.timing, floor, static_cast<float>(eager_floor_us),
                      TakesFloorOff(question) ? work_us : kNoWork, rows, output.p50_us);
  }
  for (int r = 0; r < rows; ++r) output.provenance[r] = Settle(output.provenance[r], route);
  if (route.widening == 1) return;
  PowRows(route.widening, rows, output.p90_factor);
  PowRows(route.widening, rows, output.p99_factor);
  if (narrows) WidenNarrowRows(route.narrowing, rows, wide.p50_us, output.p90_factor, output.p99_factor);
}

bool Predictor::State::AnswersAsRun(const Kernel& kernel, const EstimateOptions& options) const {
  if (learnt_machine == nullptr || !options.estimator.empty()) return false;
  const Route route = routes.Find(kernel, LabelHash(kernel), options.measured_in);
  switch (kernel.op()) {
    case Op::kConv2d:
    case Op::kVector:
    case Op::kCustom: return !route.own || !route.repeats;
    // Vision models end in a product or two: on transformers of devices left
    // out, tables of products err by 10 to 14 %, this form by 70.
    case Op::kGemm: return route.table == nullptr;
    default: return false;
  }
}

Estimate Predictor::State::EstimateAsRun(const Kernel& kernel, const Counts& counts,
                                         const EstimateOptions& options) const {
  const RunTime time = learnt_machine->Time(RunKernelOf(kernel));
  const WholeModel& known = learnt_machine->learnt();
  const double departure =
      time.compute_share * time.compute_share * known.covariance[WholeModel::kCompute][WholeModel::kCompute] +
      2 * time.compute_share * time.memory_share * known.covariance[WholeModel::kCompute][WholeModel::kMemory] +
      time.memory_share * time.memory_share * known.covariance[WholeModel::kMemory][WholeModel::kMemory];
  const double ln = std::sqrt(std::max(departure, 0.0) + kAsRunKernelLn * kAsRunKernelLn);
  const CorrectionCurve* correction = nullptr;
  if (options.corrections != nullptr && !options.corrections->Of(kernel.op()).IsNone())
    correction = &options.corrections->Of(kernel.op());
  Estimate estimate;
  SetLatency(time.us, std::exp(kZ90 * ln), std::exp(kZ99 * ln), correction, estimate);
  estimate.provenance = Provenance::kTransferred;
  estimate.estimator = kWholeModelEstimator;
  estimate.bound = BoundOf(kernel.op(), counts, MachineFor(kernel), time.us);
  return estimate;
}

absl::StatusOr<GraphEstimate> Predictor::State::EstimateEndToEnd(const Graph& graph, const std::vector<Kernel>& kernels,
                                                                 ExecutionMode mode) const {
  if (own == nullptr || own->loaded().profile.end_to_end.empty() || is_slice) {
    return FailedPrecondition(
        "no end-to-end form for {}; fit a profile of the device to times of whole models (fit --model-measurements), "
        "or "
        "ask another estimator",
        is_slice ? "a slice" : spec.slug);
  }
  std::vector<Kernel> run;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (graph.nodes[i].costing == Costing::kFree) continue;
    if (kernels[i].op() == Op::kCollective) {
      return FailedPrecondition("estimator end-to-end knows steps of one device; nodes[{}] ({}) is a collective", i,
                                kernels[i].name);
    }
    run.push_back(kernels[i]);
  }
  const StepWork step = StepWorkOf(run);
  if (!(step.flops > 0)) {
    return FailedPrecondition(
        "estimator end-to-end goes by FLOPs, and the graph has neither convolutions nor products; ask another one");
  }
  const std::vector<EndToEnd>& lines = own->loaded().profile.end_to_end;
  const EndToEnd* line = FindEndToEnd(lines, step);
  if (line == nullptr) {
    std::vector<std::string> there;
    for (const EndToEnd& one : lines) there.push_back(Describe(one));
    return FailedPrecondition("no end-to-end form of {} for {}; its times of whole models are of {}", Describe(step),
                              spec.slug, fmt::join(there, ", "));
  }
  const auto share_of = [&](const Kernel& kernel) -> absl::StatusOr<Estimate> {
    const double us = line->slope * StepFlopsOf(kernel);
    return Estimate{.latency_us = {us, us, us},
                    .estimator = kEndToEndEstimator,
                    .bound = BoundOf(kernel.op(), CountsOf(kernel), MachineFor(kernel), us)};
  };
  GPUETA_ASSIGN_OR_RETURN(GraphEstimate estimate,
                          ComposeGraph(graph, kernels, {.copy_us = line->constant_us}, share_of));
  const double flops = step.flops * static_cast<double>(graph.microbatches);
  const bool inside = mode == ExecutionMode::kEager && flops >= line->min_flops && flops <= line->max_flops;
  const Provenance provenance = inside ? Provenance::kInterpolated : Provenance::kExtrapolated;
  const auto widen = [&](Quantiles& us) {
    us.p90 = us.p50 * std::exp(kZ90 * line->error_ln);
    us.p99 = us.p50 * std::exp(kZ99 * line->error_ln);
  };
  widen(estimate.latency_us);
  for (GraphPart& part : estimate.parts) {
    widen(part.estimate.latency_us);
    part.estimate.provenance = provenance;
  }
  estimate.provenance = {{provenance, 1.0}};
  estimate.estimator = kEndToEndEstimator;
  return estimate;
}

absl::StatusOr<Estimate> Predictor::State::EstimateCollective(const Kernel& kernel, const Counts& counts,
                                                              const EstimateOptions& options) const {
  const auto& collective = std::get<Collective>(kernel.work);
  const NodeTopology& topology = *options.topology;
  GroupPlacement placement;
  if (const absl::Status placed = Place(topology, collective.ranks, collective.stride, placement); !placed.ok())
    return InField("topology", placed);
  Estimate estimate;
  std::optional<Quantiles> inside;
  if (placement.per_node > 1) {
    Kernel in_node = kernel;
    in_node.work = Collective{collective.op, collective.backend, collective.bytes, placement.per_node};
    if (routes.Find(in_node, LabelHash(in_node), options.timing).own) {
      EstimateOptions by_table = options;
      by_table.topology.reset();
      GPUETA_ASSIGN_OR_RETURN(estimate, EstimateValid(in_node, CountsOf(in_node), by_table));
      if (placement.nodes == 1) return estimate;
      inside = estimate.latency_us;
    }
  }
  GPUETA_ASSIGN_OR_RETURN(const Quantiles latency,
                          LinkLatency(collective, topology, inside.has_value() ? &*inside : nullptr));
  const Timing timing = options.timing.value_or(Timing::kKernel);
  const CorrectionCurve* correction = nullptr;
  if (!inside.has_value() && options.corrections != nullptr && !options.corrections->Of(kernel.op()).IsNone())
    correction = &options.corrections->Of(kernel.op());
  // The table's answer is of that timing already.
  const double us = inside.has_value()
                        ? latency.p50
                        : ConvertTiming(latency.p50, Timing::kKernel, timing, eager_floor_us, kKernelFloorUs);
  SetLatency(us, latency.p90 / latency.p50, latency.p99 / latency.p50, correction, estimate);
  estimate.provenance = inside.has_value() ? Provenance::kExtrapolated : Provenance::kRoofline;
  estimate.estimator = kLinksEstimator;
  estimate.bound = BoundOf(kernel.op(), counts, MachineFor(kernel), latency.p50);
  return estimate;
}

absl::StatusOr<Estimate> Predictor::State::EstimateValid(const Kernel& kernel, const Counts& counts,
                                                         const EstimateOptions& options) const {
  const Machine<double>& machine = MachineFor(kernel);
  if (options.estimator == kWholeModelEstimator) {
    if (learnt_machine == nullptr)
      return FailedPrecondition("no times of whole models were learnt from; fit a profile with --model-measurements");
    return EstimateAsRun(kernel, counts, options);
  }
  if (options.estimator == kEndToEndEstimator)
    return FailedPrecondition("estimator end-to-end answers whole graphs; ask another one for single kernels");
  if (IsLine(options.estimator)) return EstimateByLine(kernel, counts, options);
  if (kernel.op() == Op::kCollective && options.topology.has_value() && options.estimator != kRooflineEstimator)
    return EstimateCollective(kernel, counts, options);
  GPUETA_ASSIGN_OR_RETURN(const Question question, Ask(kernel, options));
  const Route& route = question.route;
  if (route.table == nullptr) return RooflineEstimate(kernel, counts, machine, question, eager_floor_us);

  Estimate estimate;
  CompiledTable::Input input;
  CompiledTable::Output output;
  input.block.rows = 1;
  CompiledTable::LoadKernel(kernel, 0, input);
  const auto work_us = static_cast<float>(RooflineUs(counts, machine));
  Answer(question, &work_us, input, output);
  double p50 = output.p50_us[0];
  double p90_factor = output.p90_factor[0];
  double p99_factor = output.p99_factor[0];
  estimate.provenance = output.provenance[0];
  estimate.estimator = kFamilyEstimator;
  if (const auto of_launch = AnswerOfLaunch(kernel, question, options);
      of_launch.has_value() && estimate.provenance != Provenance::kMeasured) {
    p50 = of_launch->latency_us.p50;
    p90_factor = of_launch->latency_us.p90 / p50;
    p99_factor = of_launch->latency_us.p99 / p50;
    estimate.estimator = of_launch->estimator;
  }
  SetLatency(p50, p90_factor, p99_factor, question.correction, estimate);
  estimate.bound = BoundOf(kernel.op(), counts, machine, p50);
  return estimate;
}

}  // namespace gpueta
