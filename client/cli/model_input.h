// Models as commands take them: files and symbol values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

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

// A graph from an .onnx file, a profiler's trace (core/importers/traces), or a
// graph file (text protobuf or JSON of gpueta.v1.Graph). NOT_FOUND for a
// missing file.
absl::StatusOr<Graph> ReadModel(const std::string& path);

// --batch binds `batch`, --seq every symbol whose name begins with "seq",
// --dim any; of a symbol without a value `batch` is 1. INVALID_ARGUMENT for a
// value of a symbol that the model does not have.
absl::StatusOr<SymbolValues> SymbolsOf(const Graph& graph, const DimArgs& args);

// The bound kernels of all nodes but views, in order.
absl::StatusOr<std::vector<Kernel>> KernelsThatRun(const Graph& graph, const SymbolValues& dims);

// Floating-point kernels in another type: --dtype.
absl::Status Retype(Graph& graph, const std::string& dtype);

}  // namespace gpueta::cli
