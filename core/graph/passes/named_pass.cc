#include "core/graph/passes/named_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/graph/passes/autocast.h"
#include "core/graph/passes/channels_last.h"
#include "core/graph/passes/eager.h"
#include "core/graph/passes/fusion.h"

namespace gpueta {
namespace {

constexpr std::array<NamedPass, 9> kPasses = {{
    {kRestoreBatchNorm, "batch norms and biases that an exporter folded into convolutions run behind them again",
     RestoreFolded},
    {"fuse-elementwise", "runs of vector operators become one pass, as compilers do", FuseElementwise},
    {"fuse-epilogues", "bias, batch norm and activation go into the product or convolution before them", FuseEpilogues},
    {"fuse-residual-norms", "residual sum and norm become one kernel", FuseResidualNorms},
    {"fuse-attention", "product, softmax and product become fused attention", FuseAttention},
    {"autocast-fp16", "products in fp16, norms and sums in fp32 with casts between, as torch.autocast; parameters fp32",
     [](Graph& graph) { Autocast(graph, DType::kFp16); }},
    {"autocast-bf16", "the same in bf16", [](Graph& graph) { Autocast(graph, DType::kBf16); }},
    {"channels-last", "images have channels last: copies of what comes in otherwise, transposes that move nothing",
     ChannelsLast},
    {"merge-products", "products of one input stand side by side", MergeProducts},
}};

std::size_t KernelsThatRunIn(const Graph& graph) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.nodes, [](const GraphNode& node) { return node.costing != Costing::kFree; }));
}

}  // namespace

std::span<const NamedPass> NamedPasses() { return kPasses; }

const NamedPass* FindPass(std::string_view name) {
  std::string joined(name);
  std::ranges::replace(joined, '_', '-');
  const auto it = std::ranges::find(kPasses, joined, &NamedPass::name);
  return it == kPasses.end() ? nullptr : &*it;
}

PassLog::PassLog(const Graph& graph) : kernels_(KernelsThatRunIn(graph)) {}

void PassLog::Add(std::string_view pass, const Graph& graph) {
  const std::size_t now = KernelsThatRunIn(graph);
  lines_.push_back(now == kernels_ ? fmt::format("{}: {} kernels", pass, now)
                                   : fmt::format("{}: {} kernels become {}", pass, kernels_, now));
  kernels_ = now;
}

}  // namespace gpueta
