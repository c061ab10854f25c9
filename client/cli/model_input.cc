#include "client/cli/model_input.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/whole_file.h"
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

bool IsFloat(DType dtype) {
  return dtype == DType::kFp64 || dtype == DType::kFp32 || dtype == DType::kTf32 || dtype == DType::kFp16 ||
         dtype == DType::kBf16;
}

}  // namespace

void AddDimOptions(CLI::App& command, DimArgs& args) {
  command.add_option("--batch", args.batch, "Value of the symbol `batch`")->check(CLI::PositiveNumber);
  command.add_option("--seq", args.seq, "Value of symbols that begin with `seq`")->check(CLI::PositiveNumber);
  command.add_option("--dim", args.dims, "NAME=N: value of any symbol; may be repeated")->allow_extra_args(false);
}

absl::StatusOr<Graph> ReadModel(const std::string& path) {
  if (path.ends_with(".onnx")) return ImportOnnxFile(path);
  if (IsTraceFile(path)) return ImportTraceFile(path);
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (absl::IsNotFound(text.status())) {
    return NotFound("{}: no such file; give an .onnx, a graph file or a trace, or --server for a registered model",
                    path);
  }
  GPUETA_RETURN_IF_ERROR(text.status());
  absl::StatusOr<Graph> graph = wire::ReadGraphText(*text);
  if (!graph.ok()) return Prefixed(graph.status(), path);
  return graph;
}

absl::StatusOr<SymbolValues> SymbolsOf(const Graph& graph, const DimArgs& args) {
  const std::vector<std::string> names = NamesOf(graph);
  const auto has = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  SymbolValues values;
  if (has("batch")) values["batch"] = 1;
  if (args.batch.has_value()) {
    if (!has("batch") && *args.batch != 1) {
      return InvalidArgument("--batch: the model has no symbol batch (it has: {}); its batch is fixed",
                             fmt::join(names, ", "));
    }
    if (has("batch")) values["batch"] = *args.batch;
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

absl::Status Retype(Graph& graph, const std::string& dtype) {
  if (dtype.empty()) return absl::OkStatus();
  const auto parsed = ParseDType(dtype);
  if (!parsed.has_value())
    return InvalidArgument("--dtype: \"{}\" is not one of fp64, fp32, tf32, fp16, bf16, fp8, int8, int4", dtype);
  // Parameters have the type of the first kernel that computes.
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const GraphNode& node) {
    return IsFloat(node.kernel.dtype) && node.kernel.op() != Op::kVector;
  });
  if (first != graph.nodes.end()) {
    const double change = (BitsOf(*parsed).weight - BitsOf(first->kernel.dtype).weight) / 8.0;
    graph.parameter_bytes += std::llround(static_cast<double>(graph.parameters) * change);
    graph.parameter_bytes = std::max<std::int64_t>(graph.parameter_bytes, 0);
  }
  for (GraphNode& node : graph.nodes) {
    if (IsFloat(node.kernel.dtype)) node.kernel.dtype = *parsed;
  }
  return absl::OkStatus();
}

}  // namespace gpueta::cli
