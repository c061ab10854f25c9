#include "client/cli/model_input.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/base/errors.h"
#include "core/base/whole_file.h"
#include "core/graph/passes/data_parallel.h"
#include "core/graph/passes/eager.h"
#include "core/graph/passes/layers.h"
#include "core/graph/passes/named_pass.h"
#include "core/graph/passes/precision.h"
#include "core/graph/passes/training.h"
#include "core/importers/onnx/onnx_importer.h"
#include "core/importers/traces/trace_importer.h"
#include "core/wire/graph_codec.h"

namespace gpueta::cli {
namespace {

absl::StatusOr<std::pair<std::string, std::int64_t>> ParseDim(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  if (equals == std::string::npos || equals == 0) return InvalidArgument("--dim {}: must be NAME=N", text);
  const auto parsed = std::from_chars(text.data() + equals + 1, end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 1)
    return InvalidArgument("--dim {}: the value must be an integer from 1 up", text);
  return std::pair(text.substr(0, equals), value);
}

std::vector<std::string> NamesOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const Graph::Symbol& symbol : graph.symbols) names.push_back(symbol.name);
  return names;
}

absl::StatusOr<DType> DTypeOf(const char* option, const std::string& name) {
  const auto parsed = ParseDType(name);
  if (parsed.has_value()) return *parsed;
  return InvalidArgument("{}: \"{}\" is not one of fp64, fp32, tf32, fp16, bf16, fp8, int8, int4", option, name);
}

// What only the importer of configs can do, asked of another file.
absl::Status CheckOneGraph(const std::string& path, const HuggingFaceOptions& options) {
  if (options.phase != Attention::Phase::kPrefill || options.cached_prefix)
    return InvalidArgument("--phase, --kv-len: need a config.json; {} is one graph already", path);
  if (options.written_out_attention)
    return InvalidArgument("--attention: needs a config.json; {} is one graph already", path);
  return absl::OkStatus();
}

}  // namespace

void AddDimOptions(CLI::App& command, DimArgs& args) {
  command.add_option("--batch", args.batch, "Value of the symbol `batch`: of all replicas and microbatches together")
      ->check(CLI::PositiveNumber);
  command.add_option("--seq", args.seq, "Value of symbols that begin with `seq`")->check(CLI::PositiveNumber);
  command.add_option("--dim", args.dims, "NAME=N: value of any symbol; may be repeated")->allow_extra_args(false);
}

void AddPhaseOptions(CLI::App& command, RunArgs& args) {
  command.add_option("--phase", args.phase, "Of a config.json: prefill (default) or decode");
  command
      .add_option("--kv-len", args.kv_len,
                  "Tokens that the last token sees, itself included: the cache of decode, or prefill with its prefix")
      ->check(CLI::PositiveNumber);
}

void AddRunOptions(CLI::App& command, RunArgs& args) {
  AddPhaseOptions(command, args);
  command.add_option("--dtype", args.dtype, "Run the model's floating-point kernels in this type");
  command.add_option("--kv-dtype", args.kv_dtype, "Type of cached keys and values");
  command
      .add_option("--mode", args.mode,
                  "eager: the host issues each kernel; graph: one CUDA graph, of a config as serving engines run; "
                  "compiled: eager with elementwise code fused")
      ->capture_default_str();
  command.add_option("--attention", args.attention, "Of a config.json: fused or written-out")->capture_default_str();
  command.add_option("--tp", args.ranks.tensor, "Tensor-parallel ranks")->check(CLI::PositiveNumber);
  command.add_flag("--sequence-parallel", args.sequence,
                   "With --tp: ranks divide the rows of norms and residual sums, too");
  command.add_option("--pp", args.ranks.pipeline, "Pipeline stages")->check(CLI::PositiveNumber);
  command.add_option("--ep", args.ranks.expert, "Expert-parallel ranks")->check(CLI::PositiveNumber);
  command.add_option("--dp", args.data_ranks, "With --train: data-parallel replicas, which divide --batch")
      ->check(CLI::PositiveNumber);
  command.add_option("--zero", args.zero_stage,
                     "With --dp: replicas share optimiser state (1), gradients, too (2), parameters, too (3)");
  command.add_option("--bucket-mb", args.bucket_mb, "With --dp: MiB of gradients exchanged together; default 25");
  command
      .add_option(
          "--microbatches", args.microbatches,
          "Parts of --batch that run one after the other: through --pp stages, or with --train adding up gradients")
      ->check(CLI::PositiveNumber);
  command.add_flag("--train", args.train, "A training step: forward, backward, optimiser");
  command.add_option("--optimiser", args.optimiser, "With --train: none, sgd, adam or adamw")
      ->capture_default_str()
      ->needs("--train");
  command
      .add_flag("--recompute", args.recompute,
                "With --train: keep layers' inputs alone and run their forward pass again")
      ->needs("--train");
  std::string passes = "Rewrites of the graph, by commas, in this order:";
  for (const NamedPass& pass : NamedPasses()) passes += fmt::format(" {} ({});", pass.name, pass.does);
  passes.back() = '.';
  command.add_option("--passes", args.passes, passes)->delimiter(',')->allow_extra_args(false);
}

absl::StatusOr<RunMode> ParseRunMode(const std::string& name) {
  if (name == "eager") return RunMode::kEager;
  if (name == "graph") return RunMode::kGraph;
  if (name == "compiled") return RunMode::kCompiled;
  return InvalidArgument("--mode: \"{}\" is not one of eager, graph, compiled", name);
}

ExecutionMode ExecutionOf(RunMode mode) {
  return mode == RunMode::kGraph ? ExecutionMode::kGraph : ExecutionMode::kEager;
}

absl::StatusOr<std::optional<std::string>> ReadConfig(const std::string& path) {
  if (!path.ends_with(".json")) return std::nullopt;
  GPUETA_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(path));
  if (!IsHuggingFaceConfig(text)) return std::nullopt;
  return text;
}

std::string ModelDisplayName(const std::string& path) {
  const std::filesystem::path file(path);
  const bool plain = file.stem() == "config" && file.has_parent_path();
  return (plain ? file.parent_path().filename() : file.stem()).string();
}

absl::StatusOr<Graph> ReadModel(const std::string& path, const HuggingFaceOptions& options) {
  if (path.ends_with(".onnx") || IsTraceFile(path)) {
    GPUETA_RETURN_IF_ERROR(CheckOneGraph(path, options));
    return path.ends_with(".onnx") ? ImportOnnxFile(path) : ImportTraceFile(path);
  }
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (absl::IsNotFound(text.status())) {
    return NotFound(
        "{}: no such file; give an .onnx, config.json, trace or graph file, or --server for a registered model", path);
  }
  GPUETA_RETURN_IF_ERROR(text.status());
  if (IsHuggingFaceConfig(*text)) {
    absl::StatusOr<Graph> graph = ImportHuggingFace(*text, ModelDisplayName(path), options);
    return graph.ok() ? std::move(graph) : Prefixed(graph.status(), path);
  }
  absl::StatusOr<Graph> graph = wire::ReadGraphText(*text);
  if (graph.ok()) {
    GPUETA_RETURN_IF_ERROR(CheckOneGraph(path, options));
    return graph;
  }
  if (!path.ends_with(".json")) return Prefixed(graph.status(), path);
  const std::string why = MessageOf(graph.status());
  return InvalidArgument("{}: no Hugging Face config (it has neither model_type nor architectures), and no graph: {}",
                         path, why.substr(0, why.find('\n')));
}

absl::StatusOr<HuggingFaceOptions> OptionsOf(const RunArgs& run) {
  HuggingFaceOptions options;
  if (!run.phase.empty()) {
    const auto phase = ParseAttentionPhase(run.phase);
    if (!phase.has_value()) return InvalidArgument("--phase: \"{}\" is not one of prefill, decode", run.phase);
    options.phase = *phase;
  }
  options.cached_prefix = run.kv_len.has_value() && options.phase == Attention::Phase::kPrefill;
  if (!run.kv_dtype.empty()) {
    GPUETA_ASSIGN_OR_RETURN(options.kv_dtype, DTypeOf("--kv-dtype", run.kv_dtype));
  }
  return options;
}

namespace {

absl::StatusOr<std::vector<const NamedPass*>> PassesOf(const std::vector<std::string>& names) {
  std::vector<const NamedPass*> passes;
  for (const std::string& name : names) {
    passes.push_back(FindPass(name));
    if (passes.back() != nullptr) continue;
    std::vector<std::string_view> known;
    for (const NamedPass& pass : NamedPasses()) known.push_back(pass.name);
    return InvalidArgument("--passes: \"{}\" is not one of {}", name, fmt::join(known, ", "));
  }
  return passes;
}

bool HasFusedAttention(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const GraphNode& node) { return node.kernel.op() == Op::kAttention; });
}

}  // namespace

std::int64_t DevicesOf(const RunArgs& run) { return run.ranks.DevicesOfStage() * run.ranks.pipeline * run.data_ranks; }

std::int64_t BatchSharesOf(const RunArgs& run) { return run.data_ranks * run.microbatches; }

namespace {

// Options that would change nothing.
absl::Status CheckSharing(const RunArgs& run) {
  if (run.sequence && run.ranks.tensor == 1)
    return InvalidArgument("--sequence-parallel: changes nothing without --tp");
  if (run.data_ranks > 1 && !run.train)
    return InvalidArgument("--dp: needs --train; replicas that only answer share nothing: ask for one of them");
  if (run.data_ranks == 1 && run.zero_stage.has_value())
    return InvalidArgument("--zero: shares among replicas; give --dp 2 or more");
  if (run.data_ranks == 1 && run.bucket_mb.has_value())
    return InvalidArgument("--bucket-mb: replicas exchange gradients; give --dp 2 or more");
  if (run.microbatches > 1 && run.ranks.pipeline == 1 && !run.train)
    return InvalidArgument("--microbatches: changes nothing without --pp or --train");
  if (run.microbatches > kMaxMicrobatches) return InvalidArgument("--microbatches: at most {}", kMaxMicrobatches);
  return absl::OkStatus();
}

absl::StatusOr<DataParallelism> DataOf(const RunArgs& run) {
  DataParallelism data{
      .ranks = run.data_ranks, .zero_stage = run.zero_stage.value_or(0), .stride = run.ranks.DevicesOfStage()};
  if (!run.bucket_mb.has_value()) return data;
  constexpr double kMost = 1e6;
  if (!(*run.bucket_mb > 0 && *run.bucket_mb <= kMost))
    return InvalidArgument("--bucket-mb: must be above 0, at most 1e6");
  data.bucket_bytes = std::max<std::int64_t>(std::llround(*run.bucket_mb * (1 << 20)), 1);
  return data;
}

// What divides the step among replicas and microbatches; after all other passes.
absl::Status Share(const RunArgs& run, Graph& graph, PassLog& log) {
  GPUETA_ASSIGN_OR_RETURN(const DataParallelism data, DataOf(run));
  GPUETA_RETURN_IF_ERROR(ShareOverRanks(graph, data));
  if (data.ranks > 1)
    log.Add(fmt::format("share over {} data-parallel ranks, ZeRO stage {}, buckets of {:.4g} MiB", data.ranks,
                        data.zero_stage, static_cast<double>(data.bucket_bytes) / (1 << 20)),
            graph);
  graph.microbatches = run.microbatches;
  if (BatchSharesOf(run) == 1) return absl::OkStatus();
  GPUETA_RETURN_IF_ERROR(DivideBatch(graph, BatchSharesOf(run)));
  log.Add(fmt::format("divide the batch by {} replicas and {} microbatches", run.data_ranks, run.microbatches), graph);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Graph> ReadModelAsRun(const std::string& path, const RunArgs& run) {
  GPUETA_ASSIGN_OR_RETURN(HuggingFaceOptions options, OptionsOf(run));
  GPUETA_ASSIGN_OR_RETURN(const RunMode mode, ParseRunMode(run.mode));
  GPUETA_ASSIGN_OR_RETURN(std::vector<const NamedPass*> passes, PassesOf(run.passes));
  const NamedPass* const fuse = FindPass("fuse-elementwise");
  // Compilers fuse what is run, forward and backward; what is fused already has no backward.
  const bool fuses_last = mode == RunMode::kCompiled || (run.train && std::ranges::count(passes, fuse) > 0);
  if (fuses_last) std::erase(passes, fuse);
  if (run.attention != "fused" && run.attention != "written-out") {
    return InvalidArgument("--attention: \"{}\" is not one of fused, written-out", run.attention);
  }
  const std::optional<Optimiser> optimiser = ParseOptimiser(run.optimiser);
  if (!optimiser.has_value()) {
    return InvalidArgument("--optimiser: \"{}\" is not one of none, sgd, adam, adamw", run.optimiser);
  }
  options.op_by_op = mode != RunMode::kGraph;
  options.last_logits_only = mode == RunMode::kGraph && !run.train;
  options.written_out_attention = run.attention == "written-out";
  options.training = run.train;
  GPUETA_RETURN_IF_ERROR(CheckSharing(run));
  if (run.train && options.phase == Attention::Phase::kDecode) {
    return InvalidArgument("--train: training has no phase decode");
  }
  if (run.train && IsTraceFile(path)) {
    return InvalidArgument("--train: {} is a trace, which has what ran already; trace a training step", path);
  }
  GPUETA_ASSIGN_OR_RETURN(Graph graph, ReadModel(path, options));
  PassLog log(graph);
  if (!run.dtype.empty()) {
    GPUETA_ASSIGN_OR_RETURN(const DType dtype, DTypeOf("--dtype", run.dtype));
    SetDType(graph, dtype);
    log.Add("dtype " + run.dtype, graph);
  }
  if (run.ranks.tensor > 1 || run.ranks.expert > 1) {
    GPUETA_RETURN_IF_ERROR(SplitTensors(graph, run.ranks, run.sequence));
    log.Add(fmt::format("split over {} tensor and {} expert ranks{}", run.ranks.tensor, run.ranks.expert,
                        run.sequence ? ", rows of norms, too" : ""),
            graph);
  }
  if (run.ranks.pipeline > 1) {
    GPUETA_RETURN_IF_ERROR(SplitStages(graph, run.ranks.pipeline, run.ranks.DevicesOfStage() * run.data_ranks));
    log.Add(fmt::format("split into {} stages", run.ranks.pipeline), graph);
  }
  // Neither training nor compilers know what exporters fold.
  if ((run.train || mode == RunMode::kCompiled) && HasFolded(graph)) {
    RestoreFolded(graph);
    log.Add(kRestoreBatchNorm, graph);
  }
  for (const NamedPass* pass : passes) {
    pass->apply(graph);
    log.Add(pass->name, graph);
  }
  if (options.kv_dtype.has_value()) {
    if (!HasFusedAttention(graph)) {
      return InvalidArgument(
          "--kv-dtype: {} has no fused attention to keep keys and values for; try --passes "
          "fuse-attention",
          path);
    }
    SetKvDType(graph, *options.kv_dtype);
    log.Add("kv-dtype " + run.kv_dtype, graph);
  }
  if (run.train) {
    if (run.recompute && !HasLayers(graph)) {
      absl::StatusOr<int> layers = MarkLayers(graph);
      if (!layers.ok()) return Prefixed(layers.status(), "--recompute");
      log.Add(fmt::format("mark {} layers", *layers), graph);
    }
    AddBackward(graph);
    log.Add("backward", graph);
    if (run.recompute) {
      GPUETA_RETURN_IF_ERROR(RecomputeLayers(graph));
      log.Add("recompute layers", graph);
    }
  }
  if (fuses_last) {
    fuse->apply(graph);
    log.Add(fuse->name, graph);
  }
  if (run.train) {
    AddOptimiserStep(graph, *optimiser);
    log.Add("optimiser " + run.optimiser, graph);
    AccumulateGradients(graph);
    log.Add("keep the buffers of gradients", graph);
  }
  GPUETA_RETURN_IF_ERROR(Share(run, graph, log));
  graph.passes = log.lines();
  return graph;
}

absl::StatusOr<SymbolValues> SymbolsOf(const Graph& graph, const DimArgs& args, std::optional<std::int64_t> kv_len,
                                       std::int64_t batch_shares) {
  const std::vector<std::string> names = NamesOf(graph);
  const auto has = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  SymbolValues values;
  for (const Graph::Symbol& symbol : graph.symbols) {
    if (symbol.name == "batch") values["batch"] = std::max<std::int64_t>(symbol.default_value, 1);
  }
  if (args.batch.has_value()) {
    if (!has("batch") && *args.batch != 1) {
      return InvalidArgument("--batch: the model has no symbol batch (it has: {}); its batch is fixed",
                             fmt::join(names, ", "));
    }
    if (has("batch")) values["batch"] = *args.batch;
  }
  if (const auto batch = values.find("batch"); batch != values.end() && batch->second % batch_shares != 0) {
    return InvalidArgument("--batch: {} cannot be divided by {} (--dp times --microbatches)", batch->second,
                           batch_shares);
  }
  if (args.seq.has_value()) {
    bool bound = false;
    for (const std::string& name : names) {
      if (!name.starts_with("seq")) continue;
      values[name] = *args.seq;
      bound = true;
    }
    if (!bound)
      return InvalidArgument("--seq: the model has no symbol that begins with seq (it has: {})",
                             fmt::join(names, ", "));
  }
  if (kv_len.has_value() && has("kv_len")) values["kv_len"] = *kv_len;
  for (const std::string& dim : args.dims) {
    GPUETA_ASSIGN_OR_RETURN(const auto binding, ParseDim(dim));
    if (!has(binding.first))
      return InvalidArgument("--dim {}: the model has no such symbol (it has: {})", dim, fmt::join(names, ", "));
    values[binding.first] = binding.second;
  }
  return values;
}

absl::StatusOr<std::vector<Kernel>> KernelsThatRun(const Graph& graph, const SymbolValues& dims) {
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> bound, Bind(graph, dims));
  std::vector<Kernel> kernels;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    if (graph.nodes[i].costing != Costing::kFree) kernels.push_back(bound[i]);
  }
  return kernels;
}

}  // namespace gpueta::cli
