#include "core/predict/as_run.h"

#include "core/graph/passes/eager.h"
#include "core/graph/passes/named_pass.h"

namespace gpueta {

std::optional<Graph> AsRunOn(const DeviceSpec& spec, ExecutionMode mode, const Graph& graph) {
  if (IsCpu(spec) || mode != ExecutionMode::kEager || !HasFolded(graph)) return std::nullopt;
  Graph run = graph;
  PassLog log(run);
  RestoreFolded(run);
  log.Add(kRestoreBatchNorm, run);
  run.passes.insert(run.passes.end(), log.lines().begin(), log.lines().end());
  return run;
}

}  // namespace gpueta
