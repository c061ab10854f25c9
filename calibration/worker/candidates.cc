#include "calibration/worker/candidates.h"

#include <set>
#include <tuple>

#include "core/base/errors.h"
#include "core/device/machine_of.h"
#include "core/importers/onnx/onnx_importer.h"
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

}  // namespace

absl::StatusOr<std::vector<Kernel>> GenerateCandidates(const Backend& backend, const DeviceSpec& spec,
                                                       const CandidateOptions& options) {
  std::vector<Kernel> candidates;
  for (Op op : options.ops) {
    GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> generated,
                            GenerateShapes(op, options.dtype, options.per_op, options.seed));
    for (const Kernel& kernel : generated) {
      if (backend.Supports(kernel).ok() && RooflineUs(kernel, spec) <= options.longest_us) candidates.push_back(kernel);
    }
  }
  return candidates;
}

absl::StatusOr<std::vector<Kernel>> WorkloadKernels(const Backend& backend, std::span<const std::string> model_paths,
                                                    std::int64_t symbol_default) {
  std::vector<Kernel> kernels;
  std::set<std::tuple<TableKey, std::uint32_t>> seen;
  for (const std::string& path : model_paths) {
    GPUETA_ASSIGN_OR_RETURN(const Graph graph, ImportOnnxFile(path));
    SymbolValues values;
    for (const Graph::Symbol& symbol : graph.symbols) {
      values[symbol.name] = symbol.default_value > 0 ? symbol.default_value
                            : symbol.name == "batch" ? 1
                                                     : symbol_default;
    }
    const absl::StatusOr<std::vector<Kernel>> bound = Bind(graph, values);
    if (!bound.ok()) return Prefixed(bound.status(), path);
    for (std::size_t i = 0; i < bound->size(); ++i) {
      const Kernel& kernel = (*bound)[i];
      if (graph.nodes[i].costing == Costing::kFree || !backend.Supports(kernel).ok()) continue;
      if (seen.emplace(KeyOf(kernel, Timing::kEager), HashOf(kernel)).second) kernels.push_back(kernel);
    }
  }
  return kernels;
}

}  // namespace gpueta
