#include "calibration/worker/candidates.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "calibration/backends/cuda/ops/cudnn/engine_name.h"
#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/graph/passes/eager.h"
#include "core/graph/passes/parallel.h"
#include "core/graph/passes/training.h"
#include "core/importers/onnx/onnx_importer.h"
#include "core/ops/launch.h"
#include "core/ops/table_key.h"
#include "core/sampling/sampling.h"

namespace gpueta {
namespace {

double RooflineUs(const Kernel& kernel, const DeviceSpec& spec) {
  const Machine<double> machine = MachineOf(spec, KeyOf(kernel, Timing::kEager));
  const Counts counts = CountsOf(kernel);
  return std::max(static_cast<double>(counts.flops.value()) / machine.peak,
                  static_cast<double>(counts.bytes().value()) / machine.bandwidth);
}

void MakeTrainingStep(Graph& graph) {
  RestoreFolded(graph);  // training does not know what exporters fold
  AddBackward(graph);
  AddOptimiserStep(graph, Optimiser::kAdamW);
  AccumulateGradients(graph);
}

// What runs for a node; nullopt where that is nothing, is part of another node's kernel,
// or a gradient that no library of kernels has.
std::optional<Kernel> AsRun(const Graph& graph, std::size_t node, Kernel kernel) {
  const Gradient gradient = GradientOf(graph, node);
  if (graph.nodes[node].costing == Costing::kFree || gradient == Gradient::kPart) return std::nullopt;
  if (gradient == Gradient::kNone) return kernel;
  const bool convolution = kernel.op() == Op::kConv2d;
  if (!convolution && kernel.op() != Op::kAttention) return std::nullopt;
  kernel.launch.kernel = cudnn::NameOf({.pass = !convolution                     ? cudnn::Pass::kBackward
                                                : gradient == Gradient::kWeights ? cudnn::Pass::kWeightGradient
                                                                                 : cudnn::Pass::kDataGradient});
  return kernel;
}

// What transformers and training steps run on GPUs besides what shapes are generated of: each
// in turn takes the place of one generated vector operator in three.
void AddOperatorsOfGpuModels(std::vector<Kernel>& vectors) {
  struct Operator {
    std::string_view op;
    std::int64_t operands;
  };
  constexpr Operator kOperators[] = {{"rmsnorm", 1},   {"silu_mul", 2},  {"rope", 1},    {"silu", 1},
                                     {"batchnorm", 1}, {"batchnorm", 2}, {"dropout", 1}, {"accumulate_gradient", 2}};
  constexpr std::size_t kEvery = 3;
  for (std::size_t i = 0; i < vectors.size(); i += kEvery) {
    const Operator& chosen = kOperators[i / kEvery % std::size(kOperators)];
    auto& vector = std::get<Vector>(vectors[i].work);
    vector.op = chosen.op;
    vector.operands = chosen.operands;
  }
}

// Of what a backend has or does not have, whatever the size.
std::string KindOf(const Kernel& kernel) {
  std::string kind(Name(kernel.op()));
  if (const auto* vector = std::get_if<Vector>(&kernel.work); vector != nullptr)
    kind += fmt::format(" {} of {} operands", vector->op, vector->operands);
  kind += fmt::format(" in {}", Name(kernel.dtype));
  if (const std::string_view gradient = GradientOf(kernel); !gradient.empty()) kind += fmt::format(" ({})", gradient);
  return kind;
}

}  // namespace

std::vector<Op> PlannedOps(const DeviceSpec& spec, const std::vector<std::vector<Kernel>>& workload) {
  std::vector<Op> ops = {Op::kGemm, Op::kConv2d, Op::kVector};
  if (IsCpu(spec)) return ops;
  for (const Op op : {Op::kAttention, Op::kMoe}) {
    const bool occurs = std::ranges::any_of(workload, [op](const std::vector<Kernel>& model) {
      return std::ranges::any_of(model, [op](const Kernel& kernel) { return kernel.op() == op; });
    });
    if (workload.empty() || occurs) ops.push_back(op);
  }
  return ops;
}

absl::StatusOr<std::vector<Kernel>> GenerateCandidates(const Backend& backend, const DeviceSpec& spec,
                                                       const CandidateOptions& options) {
  std::vector<std::pair<Op, DType>> kinds;
  for (Op op : options.ops) {
    kinds.emplace_back(op, options.dtype);
    // Indices and masks are of these types whatever the model's is.
    if (op == Op::kVector) kinds.insert(kinds.end(), {{op, DType::kFp64}, {op, DType::kInt8}});
  }
  std::vector<Kernel> candidates;
  for (const auto& [op, dtype] : kinds) {
    std::vector<DType> choices = {dtype};
    if (op == Op::kAttention || op == Op::kMoe) choices.insert(choices.end(), {DType::kBf16, DType::kFp16});
    for (const DType choice : choices) {
      GPUETA_ASSIGN_OR_RETURN(std::vector<Kernel> generated, GenerateShapes(op, choice, options.per_op, options.seed));
      const bool is_model_type = choice != DType::kFp64 && choice != DType::kInt8;
      if (op == Op::kVector && !IsCpu(spec) && is_model_type) AddOperatorsOfGpuModels(generated);
      std::erase_if(generated, [&backend](const Kernel& kernel) { return !backend.Supports(kernel).ok(); });
      if (generated.empty()) continue;
      std::erase_if(generated, [&](const Kernel& kernel) { return RooflineUs(kernel, spec) > options.longest_us; });
      candidates.insert(candidates.end(), generated.begin(), generated.end());
      break;
    }
  }
  return candidates;
}

std::vector<Kernel> CollectiveCandidates(const Backend& backend, const CandidateOptions& options) {
  constexpr std::int64_t kMostRanks = 64;  // of one node
  constexpr std::int64_t kLeastBytes = 512;
  constexpr std::int64_t kMostBytes = std::int64_t{512} << 20;
  std::vector<Kernel> candidates;
  for (const std::string_view op : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "send_recv"}) {
    const auto collective = [&](std::int64_t ranks, std::int64_t bytes) {
      return Kernel{
          .dtype = options.dtype,
          .work = Collective{
              .op = std::string(op), .backend = std::string(kCollectiveBackend), .bytes = bytes, .ranks = ranks}};
    };
    std::int64_t most = 1;
    while (most < kMostRanks && backend.Supports(collective(most + 1, kLeastBytes)).ok()) ++most;
    for (std::int64_t ranks = 2; ranks <= most; ranks = ranks < most ? std::min(2 * ranks, most) : most + 1) {
      for (std::int64_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 2) {
        candidates.push_back(collective(ranks, bytes));
        if (bytes < kMostBytes) candidates.push_back(collective(ranks, bytes + bytes / 2));
      }
    }
  }
  return candidates;
}

absl::StatusOr<std::vector<Kernel>> OwnKernelCandidates(ManifestKernels& kernels, const Backend& backend,
                                                        const DeviceSpec& spec, const CandidateOptions& options) {
  constexpr double kMemoryShare = 0.5;
  constexpr double kUnknownMemoryGb = 4;  // what any card has
  const double memory_gb = spec.memory_gb > 0 ? spec.memory_gb : kUnknownMemoryGb;
  GPUETA_ASSIGN_OR_RETURN(
      std::vector<Kernel> candidates,
      kernels.Candidates(options.per_op, static_cast<std::int64_t>(kMemoryShare * memory_gb * 1e9), options.seed));
  std::erase_if(candidates, [&](const Kernel& kernel) {
    return !backend.Supports(kernel).ok() || RooflineUs(kernel, spec) > options.longest_us;
  });
  return candidates;
}

absl::StatusOr<std::vector<std::vector<Kernel>>> WorkloadModels(const Backend& backend,
                                                                std::span<const std::string> model_paths,
                                                                const WorkloadOptions& options,
                                                                std::map<std::string, std::size_t>* left_out) {
  std::vector<std::vector<Kernel>> models;
  for (const std::string& path : model_paths) {
    GPUETA_ASSIGN_OR_RETURN(Graph graph, ImportOnnxFile(path));
    if (options.train) MakeTrainingStep(graph);
    SymbolValues values;
    for (const Graph::Symbol& symbol : graph.symbols) {
      values[symbol.name] = symbol.default_value > 0 ? symbol.default_value
                            : symbol.name == "batch" ? 1
                                                     : options.symbol_default;
    }
    const absl::StatusOr<std::vector<Kernel>> bound = Bind(graph, values);
    if (!bound.ok()) return Prefixed(bound.status(), path);
    std::vector<Kernel>& kernels = models.emplace_back();
    for (std::size_t i = 0; i < bound->size(); ++i) {
      const std::optional<Kernel> kernel = AsRun(graph, i, (*bound)[i]);
      if (!kernel.has_value()) continue;
      if (backend.Supports(*kernel).ok()) {
        kernels.push_back(*kernel);
      } else if (left_out != nullptr) {
        ++(*left_out)[KindOf(*kernel)];
      }
    }
    if (kernels.empty()) return InvalidArgument("{}: the device can run none of its kernels", path);
  }
  return models;
}

}  // namespace gpueta
