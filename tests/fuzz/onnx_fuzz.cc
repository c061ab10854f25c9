// Any bytes as an ONNX file: refused, or a valid graph whose counts can be
// asked for, also after each of the passes that callers choose by name.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/graph/passes/named_pass.h"
#include "core/importers/onnx/onnx_importer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const absl::StatusOr<gpueta::Graph> graph = gpueta::ImportOnnx({reinterpret_cast<const char*>(data), size}, "fuzzed");
  if (!graph.ok()) return 0;
  if (!gpueta::Validate(*graph).ok()) std::abort();
  gpueta::SymbolValues values;
  for (const gpueta::Graph::Symbol& symbol : graph->symbols) values[symbol.name] = 3;
  // Fails where symbols of 3 give impossible dims.
  const absl::StatusOr<gpueta::GraphCounts> counts = gpueta::CountsOf(*graph, values);
  if (counts.ok() && (counts->macs < 0 || counts->bytes < 0)) std::abort();
  if (gpueta::HashOf(*graph).size() != 16) std::abort();
  constexpr std::size_t kMostNodes = 4000;  // each run stays short
  if (graph->nodes.size() > kMostNodes) return 0;
  for (const gpueta::NamedPass& pass : gpueta::NamedPasses()) {
    gpueta::Graph run = *graph;
    pass.apply(run);
    if (counts.ok() && gpueta::Validate(run).ok()) (void)gpueta::CountsOf(run, values);
  }
  return 0;
}
