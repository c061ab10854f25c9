// Any bytes as an ONNX file: refused, or a valid graph whose counts can be
// asked for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

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
  return 0;
}
