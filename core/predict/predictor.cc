#include "core/predict/predictor.h"

#include "core/base/errors.h"
#include "core/device/slice.h"
#include "core/predict/as_run.h"
#include "core/predict/compose.h"
#include "core/predict/link_model.h"
#include "core/predict/predictor_state.h"
#include "core/predict/wave.h"

namespace gpueta {
namespace {

std::vector<double> DimsOf(const Kernel& kernel) {
  std::vector<double> dims;
  for (int d = 0; d < DimNamesOf(kernel.op()).size; ++d) dims.push_back(static_cast<double>(GetDim(kernel, d)));
  return dims;
}

}  // namespace

Predictor::Predictor(DeviceSpec spec, std::shared_ptr<const CompiledProfile> own,
                     std::shared_ptr<const CompiledProfile> transfer, std::int64_t version)
    : state_(std::make_unique<const State>(std::move(spec), std::move(own), std::move(transfer), version)) {}

Predictor::Predictor(std::unique_ptr<const State> state) : state_(std::move(state)) {}

Predictor::~Predictor() = default;

absl::StatusOr<std::shared_ptr<const Predictor>> Predictor::Slice(std::string_view slice) const {
  GPUETA_ASSIGN_OR_RETURN(DeviceSpec spec, SliceOf(state_->spec, slice));
  return std::shared_ptr<const Predictor>(new Predictor(
      std::make_unique<const State>(std::move(spec), state_->own, state_->unmoved, state_->version, /*slice=*/true)));
}

const DeviceSpec& Predictor::spec() const { return state_->spec; }
const LoadedProfile* Predictor::profile() const { return state_->own == nullptr ? nullptr : &state_->own->loaded(); }
const Profile* Predictor::transferred() const {
  return state_->transfer == nullptr ? nullptr : &state_->transfer->loaded().profile;
}
std::int64_t Predictor::version() const { return state_->version; }

absl::StatusOr<Estimate> Predictor::EstimateKernel(const Kernel& kernel, const EstimateOptions& options) const {
  GPUETA_RETURN_IF_ERROR(CheckEstimator(options.estimator));
  Counts counts;
  GPUETA_RETURN_IF_ERROR(Validate(kernel, counts));
  return state_->EstimateValid(kernel, counts, options);
}

absl::StatusOr<GraphEstimate> Predictor::EstimateGraph(const Graph& as_written, const SymbolValues& dims,
                                                       const EstimateOptions& options) const {
  GPUETA_RETURN_IF_ERROR(CheckEstimator(options.estimator));
  const std::optional<Graph> as_run_here = AsRunOn(state_->spec, options.mode, as_written);
  const Graph& graph = as_run_here.has_value() ? *as_run_here : as_written;
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, Bind(graph, dims));
  const bool end_to_end = options.estimator == kEndToEndEstimator;
  GPUETA_ASSIGN_OR_RETURN(GraphEstimate estimate, end_to_end ? state_->EstimateEndToEnd(graph, kernels, options.mode)
                                                             : EstimateByKernels(graph, kernels, dims, options));
  if (!HasRoomFor(state_->spec, estimate.memory_bytes)) {
    estimate.warnings.push_back(fmt::format("needs about {:.4g} GiB of memory, {} has {:.4g}",
                                            static_cast<double>(estimate.memory_bytes) / kBytesPerGib,
                                            state_->spec.slug, state_->spec.memory_gb));
  }
  if (options.corrections != nullptr && !end_to_end) {
    Quantiles& us = estimate.latency_us;
    estimate.correction = FactorAt(options.corrections->graphs, us.p50);
    for (double* quantile : {&us.p50, &us.p90, &us.p99}) *quantile *= estimate.correction;
  }
  return estimate;
}

absl::StatusOr<GraphEstimate> Predictor::EstimateByKernels(const Graph& graph, const std::vector<Kernel>& kernels,
                                                           const SymbolValues& dims,
                                                           const EstimateOptions& options) const {
  const EstimateOptions kernel_options = KernelOptionsOf(options);
  ExecutionModel execution = ExecutionOf(options);
  const bool learnt = execution.learnt != nullptr;
  const bool copies = options.mode == ExecutionMode::kEager && options.topology.has_value() && !IsCpu(state_->spec);
  if (learnt || copies) {
    GPUETA_ASSIGN_OR_RETURN(const std::int64_t bytes, InputBytes(graph, dims));
    execution.input_bytes = static_cast<double>(bytes) * static_cast<double>(graph.microbatches);
    if (!learnt) execution.copy_us = HostCopyUs(*options.topology, execution.input_bytes);
  }
  return ComposeGraph(graph, kernels, execution, [&](const Kernel& kernel) -> absl::StatusOr<Estimate> {
    if (learnt && state_->AnswersAsRun(kernel, kernel_options))
      return state_->EstimateAsRun(kernel, CountsOf(kernel), kernel_options);
    return state_->EstimateValid(kernel, CountsOf(kernel), kernel_options);
  });
}

EstimateOptions Predictor::KernelOptionsOf(const EstimateOptions& of_graph) const {
  EstimateOptions options = of_graph;
  // A CPU runs what it is called for; a GPU's kernels are summed as device time.
  const bool on_cpu = IsCpu(state_->spec);
  options.timing = on_cpu ? Timing::kEager : Timing::kKernel;
  // A framework's own calls tell best which kernels it runs.
  if (!on_cpu && options.mode == ExecutionMode::kEager) options.measured_in = Timing::kEager;
  return options;
}

ExecutionModel Predictor::ExecutionOf(const EstimateOptions& of_graph) const {
  if (IsCpu(state_->spec)) return {};
  if (of_graph.mode == ExecutionMode::kGraph) return {.gap_us = kGraphGapUs};
  if (state_->learnt_machine != nullptr) {
    if (of_graph.host == HostRates{}) return {.learnt = state_->learnt_machine};
    return {.learnt = std::make_shared<const LearntMachine>(state_->spec,
                                                            InHost(state_->learnt_machine->learnt(), of_graph.host))};
  }
  const double known_us = of_graph.host.issue_us > 0 ? of_graph.host.issue_us : state_->host_issue_us;
  return {.host_issue_us = known_us > 0 ? known_us : kTypicalHostIssueUs};
}

absl::StatusOr<RegimeShares> Predictor::Regime(const Kernel& kernel, const EstimateOptions& options) const {
  GPUETA_RETURN_IF_ERROR(CheckEstimator(options.estimator));
  GPUETA_RETURN_IF_ERROR(Validate(kernel));
  GPUETA_ASSIGN_OR_RETURN(const Question question, state_->Ask(kernel, options));
  const Route& route = question.route;
  const Machine<double>& machine = state_->MachineFor(kernel);
  if (route.table == nullptr) {
    const Counts counts = CountsOf(kernel);
    return SharesOf(machine, [&](const Machine<double>& m) { return RooflineUs(counts, m) + kKernelFloorUs; });
  }
  if (const KernelConfig* config = state_->ConfigOf(kernel, route, options);
      config != nullptr && WaveLatencyUs(kernel, machine, *config).value_or(0) > 0) {
    return SharesOf(machine, [&](const Machine<double>& m) { return WaveLatencyUs(kernel, m, *config).value_or(0); });
  }
  const Table& table = route.table->table();
  const Variant& variant = table.variants[static_cast<std::size_t>(question.variant.index)];
  const std::vector<double> theta(variant.theta.begin(), variant.theta.end());
  const std::vector<double> dims = DimsOf(kernel);
  return SharesOf(
      machine, [&](const Machine<double>& m) { return FormLatencyUs(table.key.op, table.key.phase, m, theta, dims); });
}

absl::StatusOr<KernelRun> Predictor::RunOf(const Kernel& kernel, const EstimateOptions& options) const {
  GPUETA_RETURN_IF_ERROR(Validate(kernel));
  GPUETA_ASSIGN_OR_RETURN(const Question question, state_->Ask(kernel, options));
  KernelRun run{.configuration = std::string(ConfigurationOf(kernel))};
  const KernelConfig* config = state_->ConfigOf(kernel, question.route, options);
  const Tile tile =
      config != nullptr ? Tile{config->tile_m, config->tile_n} : TileOfKernelName(run.configuration).value_or(Tile{});
  const int resident = config != nullptr ? config->resident_blocks : 1;
  if (const auto r = WaveRegressors(kernel, state_->MachineFor(kernel), tile, resident); r.has_value())
    run.waves = (*r)[1];
  return run;
}

absl::StatusOr<Explanation> Predictor::Explain(const Kernel& kernel, const EstimateOptions& options) const {
  Explanation out;
  GPUETA_ASSIGN_OR_RETURN(out.estimate, EstimateKernel(kernel, options));
  GPUETA_ASSIGN_OR_RETURN(const Question question, state_->Ask(kernel, options));
  const Route& route = question.route;
  const Machine<double>& machine = state_->MachineFor(kernel);
  out.counts = CountsOf(kernel);
  out.roofline_us = RooflineUs(out.counts, machine);
  const auto term = [&out](std::string name, double value) { out.terms.emplace_back(std::move(name), value); };
  term("compute_us at peak", static_cast<double>(out.counts.flops.value()) / machine.peak);
  term("memory_us at peak", static_cast<double>(out.counts.bytes().value()) / machine.bandwidth);
  GPUETA_ASSIGN_OR_RETURN(const RegimeShares shares, Regime(kernel, options));
  term("share of compute", shares.compute);
  term("share of memory", shares.memory);
  term(kernel.op() == Op::kCollective ? "share of communication" : "share of launch and latency", shares.rest);
  if (question.correction != nullptr) {
    term("correction", out.estimate.correction);
    out.notes.push_back(
        fmt::format("observations corrected the estimate by a factor of {:.3f}", out.estimate.correction));
  }
  if (route.table == nullptr) {
    out.notes.push_back("no table fits: the data sheet's roofline answers");
    return out;
  }
  const Table& table = route.table->table();
  const VariantChoice& variant = question.variant;
  const Variant& parameters = table.variants[static_cast<std::size_t>(variant.index)];
  out.notes.push_back(fmt::format("table {} of {}, {} measurements", Describe(table.key),
                                  route.own ? "this device" : "other devices", table.rows));
  if (!table.relatives.empty()) {
    std::vector<std::string> relatives;
    for (const Relative& relative : table.relatives)
      relatives.push_back(fmt::format("{} {:.2f}", relative.device, relative.weight));
    out.notes.push_back(fmt::format("departs from the pool as its relatives do: {}", fmt::join(relatives, ", ")));
  }
  out.notes.push_back(variant.exact ? fmt::format("parameters of label \"{}\"", parameters.label)
                                    : fmt::format("label \"{}\" was not measured; \"{}\" stands in", LabelOf(kernel),
                                                  parameters.label));
  if (table.key.dtype != kernel.dtype)
    out.notes.push_back(fmt::format("{} scaled to {}", Name(table.key.dtype), Name(kernel.dtype)));
  if (table.key.timing != route.timing)
    out.notes.push_back(fmt::format("{} converted to {} timing", Name(table.key.timing), Name(route.timing)));
  if (out.estimate.estimator == kLaunchEstimator)
    out.notes.push_back("kernel and grid are known: what they say beyond the shape is in the estimate");
  const std::vector<double> dims = DimsOf(kernel);
  const DimNames& names = DimNamesOf(kernel.op());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const double value = dims[i];
    if (route.exact && (value < table.dim_min[i] || value > table.dim_max[i])) {
      out.notes.push_back(fmt::format("{} = {} is outside the measured {} to {}", names.names[i], value,
                                      table.dim_min[i], table.dim_max[i]));
    }
  }
  if (const KernelConfig* likely = SelectedConfig(kernel, machine, table.kernel_configs);
      likely != nullptr && route.exact && !TellsLaunch(kernel)) {
    out.notes.push_back(fmt::format("the library is likely to run {}, which takes {:.4g} us", likely->kernel,
                                    *WaveLatencyUs(kernel, machine, *likely)));
  }
  const std::vector<double> theta(parameters.theta.begin(), parameters.theta.end());
  term("family form without residual, us", FormLatencyUs(table.key.op, table.key.phase, machine, theta, dims));
  const FormInfo form = FormInfoOf(table.key.op, table.key.phase);
  for (std::size_t i = 0; i < form.params.size(); ++i) term(fmt::format("parameter {}", form.params[i].name), theta[i]);
  if (const KernelConfig* config = state_->ConfigOf(kernel, route, options); config != nullptr) {
    out.notes.push_back(fmt::format("kernel {} with {} measurements, tile {}x{}", config->kernel, config->rows,
                                    config->tile_m, config->tile_n));
  }
  GPUETA_ASSIGN_OR_RETURN(const KernelRun run, RunOf(kernel, options));
  if (run.waves > 0) term("waves", run.waves);
  return out;
}

}  // namespace gpueta
