#include "core/predict/as_run.h"

#include "core/graph/passes/eager.h"

namespace gpueta {

std::optional<Graph> AsRunOn(const DeviceSpec& spec, ExecutionMode mode, const Graph& graph) {
  if (IsCpu(spec) || mode != ExecutionMode::kEager || !HasFolded(graph)) return std::nullopt;
  Graph run = graph;
  RestoreFolded(run);
  return run;
}

}  // namespace gpueta
