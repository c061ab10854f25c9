#include "core/graph/passes/eager.h"

#include <algorithm>
#include <utility>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

// A pass over the convolution's output.
GraphNode PassBehind(const GraphNode& conv, bool batch_norm) {
  const auto [rows, cols] = *OutputExtent(conv);
  GraphNode pass = batch_norm ? VectorLike(conv, "batch_norm", "batchnorm", rows, cols, 1)
                              : VectorLike(conv, "bias", "add", rows, cols, 1);
  const std::int64_t channels = DimOf(conv, "out_channels").constant().value_or(0);
  pass.parameters = batch_norm ? 2 * channels : channels;
  return pass;
}

}  // namespace

void RestoreFolded(Graph& graph) {
  Rewriter rewriter(graph);
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    const GraphNode& node = rewriter.old(i);
    if (node.folded == Folded::kNothing || node.kernel.op() != Op::kConv2d) {
      rewriter.Keep(i);
      continue;
    }
    GraphNode pass = PassBehind(node, node.folded == Folded::kBatchNorm);
    GraphNode conv = node;
    conv.folded = Folded::kNothing;
    const std::int64_t channels = DimOf(node, "out_channels").constant().value_or(0);
    conv.parameters = std::max<std::int64_t>(conv.parameters - channels, 0);
    pass.inputs = {rewriter.Keep(i, std::move(conv))};
    rewriter.Replace(i, rewriter.Append(std::move(pass)));
  }
  rewriter.Finish();
}

bool HasFolded(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const GraphNode& node) { return node.folded != Folded::kNothing; });
}

}  // namespace gpueta
