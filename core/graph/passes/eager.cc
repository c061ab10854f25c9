#include "core/graph/passes/eager.h"

#include <algorithm>
#include <utility>

#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

SymInt OutSize(const GraphNode& conv, const char* size, const char* kernel, const char* stride, const char* pad,
               const char* extra_pad, const char* dilation) {
  const SymInt span = DimOf(conv, dilation) * (DimOf(conv, kernel) - 1) + 1;
  return FloorDiv(DimOf(conv, size) + 2 * DimOf(conv, pad) + DimOf(conv, extra_pad) - span, DimOf(conv, stride)) + 1;
}

// A pass over the convolution's output.
GraphNode PassBehind(const GraphNode& conv, bool batch_norm) {
  const SymInt rows = DimOf(conv, "batch") * DimOf(conv, "out_channels") *
                      OutSize(conv, "height", "kernel_h", "stride_h", "pad_h", "extra_pad_h", "dilation_h");
  const SymInt cols = OutSize(conv, "width", "kernel_w", "stride_w", "pad_w", "extra_pad_w", "dilation_w");
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
