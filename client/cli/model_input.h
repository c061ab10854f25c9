// Models as commands take them: files and symbol values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/passes/parallel.h"
#include "core/importers/huggingface/huggingface_importer.h"

namespace CLI {
class App;
}

namespace gpueta::cli {

// Values for a model's symbols as given on the command line.
struct DimArgs {
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> seq;
  std::vector<std::string> dims;  // NAME=N
};
void AddDimOptions(CLI::App& command, DimArgs& args);

// How a model runs: what shapes its graph besides dims.
struct RunArgs {
  std::string phase;  // prefill or decode; empty: prefill
  std::optional<std::int64_t> kv_len;
  std::string mode = "eager";       // eager, graph or compiled
  std::string attention = "fused";  // or written-out
  std::string dtype;
  std::string kv_dtype;
  Parallelism ranks;
  bool train = false;
  std::string optimiser = "adamw";
};
void AddPhaseOptions(CLI::App& command, RunArgs& args);
void AddRunOptions(CLI::App& command, RunArgs& args);

// A graph from an .onnx file, a profiler's trace (core/importers/traces), a
// Hugging Face config.json, or a graph file (text protobuf or JSON of
// gpueta.v1.Graph). NOT_FOUND for a missing file.
absl::StatusOr<Graph> ReadModel(const std::string& path, const HuggingFaceOptions& options = {});

// The text of a Hugging Face config.json; nullopt for a file of another format.
absl::StatusOr<std::optional<std::string>> ReadConfig(const std::string& path);
// "llama-3-8b" of llama-3-8b/config.json, "small" of small.json.
std::string ModelDisplayName(const std::string& path);

// The same as it runs: passes for precision, training, parallelism and fusion
// applied. Configs take the grain that the mode stands for: op by op in eager
// and compiled, as serving engines run in graph. INVALID_ARGUMENT naming the
// option that the model cannot take.
absl::StatusOr<Graph> ReadModelAsRun(const std::string& path, const RunArgs& run);

// What --phase, --kv-len and --kv-dtype ask of the importer. INVALID_ARGUMENT
// where `path` is of another format, which has one graph whatever is asked.
absl::StatusOr<HuggingFaceOptions> OptionsOf(const RunArgs& run, const std::string& path);

// --batch binds `batch`, --seq every symbol whose name begins with "seq",
// --dim any; of a symbol without a value `batch` is 1. INVALID_ARGUMENT for a
// value of a symbol that the model does not have. --kv-len binds `kv_len`.
absl::StatusOr<SymbolValues> SymbolsOf(const Graph& graph, const DimArgs& args,
                                       std::optional<std::int64_t> kv_len = std::nullopt);

// The bound kernels of all nodes but views, in order.
absl::StatusOr<std::vector<Kernel>> KernelsThatRun(const Graph& graph, const SymbolValues& dims);

}  // namespace gpueta::cli
