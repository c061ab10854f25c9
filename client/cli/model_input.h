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
#include "core/predict/predictor.h"

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

// What a graph is run as, by --mode.
enum class RunMode : std::uint8_t { kEager, kGraph, kCompiled };
absl::StatusOr<RunMode> ParseRunMode(const std::string& name);
// Compiled code is still issued kernel by kernel.
ExecutionMode ExecutionOf(RunMode mode);

// How a model runs: what shapes its graph besides dims.
struct RunArgs {
  std::string phase;  // prefill or decode; empty: prefill
  std::optional<std::int64_t> kv_len;
  std::string mode = "eager";       // eager, graph or compiled
  std::string attention = "fused";  // or written-out
  std::string dtype;
  std::string kv_dtype;
  Parallelism ranks;
  bool sequence = false;  // of tensor parallelism
  std::int64_t data_ranks = 1;
  std::optional<int> zero_stage;
  std::optional<double> bucket_mb;
  std::int64_t microbatches = 1;
  bool train = false;
  bool recompute = false;
  std::string optimiser = "adamw";
  std::vector<std::string> passes;  // by name, in order
};
// Devices that run one step together.
std::int64_t DevicesOf(const RunArgs& run);
// In so many parts --batch is divided: among replicas and into microbatches.
std::int64_t BatchSharesOf(const RunArgs& run);
void AddPhaseOptions(CLI::App& command, RunArgs& args);
void AddRunOptions(CLI::App& command, RunArgs& args);

// A graph from an .onnx file, a profiler's trace (core/importers/traces), a
// Hugging Face config.json, or a graph file (text protobuf or JSON of
// gpueta.v1.Graph). NOT_FOUND for a missing file; INVALID_ARGUMENT for options
// that only a config can follow, with a file that is one graph already.
absl::StatusOr<Graph> ReadModel(const std::string& path, const HuggingFaceOptions& options = {});

// The text of a Hugging Face config.json; nullopt for a file of another format.
absl::StatusOr<std::optional<std::string>> ReadConfig(const std::string& path);
// "llama-3-8b" of llama-3-8b/config.json, "small" of small.json.
std::string ModelDisplayName(const std::string& path);

// ReadModel with passes for precision, parallelism, fusion and training applied.
// Configs take the grain that the mode stands for: op by op in eager and
// compiled, as serving engines run in graph. INVALID_ARGUMENT naming the option
// that the model cannot take, or that changes nothing about it. Graph::passes
// says what was done.
absl::StatusOr<Graph> ReadModelAsRun(const std::string& path, const RunArgs& run);

// What --phase, --kv-len and --kv-dtype ask of the importer.
absl::StatusOr<HuggingFaceOptions> OptionsOf(const RunArgs& run);

// --batch binds `batch`, --seq every symbol whose name begins with "seq",
// --dim any; without a value `batch` has its default, else 1. INVALID_ARGUMENT for a
// value of a symbol that the model does not have, or a batch that `batch_shares`
// does not divide. --kv-len binds `kv_len`.
absl::StatusOr<SymbolValues> SymbolsOf(const Graph& graph, const DimArgs& args,
                                       std::optional<std::int64_t> kv_len = std::nullopt,
                                       std::int64_t batch_shares = 1);

// The bound kernels of all nodes but views, in order.
absl::StatusOr<std::vector<Kernel>> KernelsThatRun(const Graph& graph, const SymbolValues& dims);

}  // namespace gpueta::cli
