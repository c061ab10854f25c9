// Any text as a config.json: refused, or a valid graph in each grain and phase
// that survives the passes over it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/graph/passes/fusion.h"
#include "core/graph/passes/parallel.h"
#include "core/graph/passes/training.h"
#include "core/importers/huggingface/huggingface_importer.h"

namespace {

using gpueta::Graph;

void Check(const Graph& graph) {
  if (!gpueta::Validate(graph).ok()) std::abort();
  gpueta::SymbolValues values;
  for (const Graph::Symbol& symbol : graph.symbols) values[symbol.name] = 3;
  // Fails where sizes make more than 2^62 of anything.
  const absl::StatusOr<gpueta::GraphCounts> counts = gpueta::CountsOf(graph, values);
  if (counts.ok() && (counts->macs < 0 || counts->bytes < 0)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool op_by_op : {false, true}) {
    for (const auto phase : {gpueta::Attention::Phase::kPrefill, gpueta::Attention::Phase::kDecode}) {
      absl::StatusOr<Graph> graph = gpueta::ImportHuggingFace(
          text, "fuzzed",
          {.phase = phase, .op_by_op = op_by_op, .written_out_attention = op_by_op, .training = op_by_op});
      if (!graph.ok()) continue;
      constexpr std::size_t kMostNodes = 4000;  // each run stays short
      if (graph->nodes.size() > kMostNodes) continue;
      Check(*graph);
      if (graph->parameters < graph->active_parameters) std::abort();
      Graph split = *graph;
      if (gpueta::SplitTensors(split, {.tensor = 2}).ok() && gpueta::SplitStages(split, 2).ok()) Check(split);
      gpueta::FuseAttention(*graph);
      gpueta::FuseElementwise(*graph);
      gpueta::AddBackward(*graph);
      Check(*graph);
    }
  }
  return 0;
}
