#include "core/graph/passes/traced_batch.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "core/base/errors.h"
#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

constexpr std::string_view kBatch = "batch";

const Gemm* PlainProduct(const GraphNode& node) {
  const auto* gemm = std::get_if<Gemm>(&node.kernel.work);
  return gemm != nullptr && gemm->batch == 1 ? gemm : nullptr;
}

// The size that most products have as rows or contraction; as rows where two are
// as frequent.
std::int64_t TokensOf(const Graph& graph) {
  std::map<std::int64_t, std::pair<int, int>> seen;  // in how many products, and in how many as rows
  for (const GraphNode& node : graph.nodes) {
    const Gemm* gemm = PlainProduct(node);
    if (gemm == nullptr) continue;
    ++seen[gemm->m].first;
    ++seen[gemm->m].second;
    if (gemm->k != gemm->m) ++seen[gemm->k].first;
  }
  const auto most = std::ranges::max_element(seen, {}, [](const auto& size) { return size.second; });
  return most == seen.end() ? 0 : most->first;
}

// Elements of tensors that hold parameters.
std::set<std::int64_t> ParameterSizes(const Graph& graph, std::int64_t tokens) {
  std::set<std::int64_t> sizes;
  for (const GraphNode& node : graph.nodes) {
    if (const Gemm* gemm = PlainProduct(node); gemm != nullptr && gemm->m == tokens && gemm->k != tokens) {
      sizes.insert({gemm->n * gemm->k, gemm->n});
    } else if (const auto* conv = std::get_if<Conv2d>(&node.kernel.work); conv != nullptr) {
      sizes.insert({conv->out_channels * conv->in_channels / std::max<std::int64_t>(conv->groups, 1) * conv->kernel_h *
                        conv->kernel_w,
                    conv->out_channels});
    }
  }
  return sizes;
}

// The dim that grows; empty: none.
std::string_view GrowingDim(const GraphNode& node, std::int64_t traced, std::int64_t tokens,
                            const std::set<std::int64_t>& parameters) {
  const auto divides = [traced](std::int64_t size) { return size >= traced && size % traced == 0; };
  if (const auto* conv = std::get_if<Conv2d>(&node.kernel.work)) return divides(conv->batch) ? kBatch : "";
  if (const auto* attention = std::get_if<Attention>(&node.kernel.work)) return divides(attention->batch) ? kBatch : "";
  if (const auto* moe = std::get_if<Moe>(&node.kernel.work)) return divides(moe->num_tokens) ? "num_tokens" : "";
  if (const auto* gemm = std::get_if<Gemm>(&node.kernel.work)) {
    if (gemm->batch > 1) return divides(gemm->batch) ? kBatch : "";
    if (gemm->m == tokens && divides(gemm->m)) return "m";
    if (gemm->k == tokens && divides(gemm->k)) return "k";
    return divides(gemm->m) ? "m" : "";
  }
  if (const auto* vector = std::get_if<Vector>(&node.kernel.work)) {
    if (vector->rows != tokens && parameters.contains(vector->rows * vector->cols)) return "";
    return divides(vector->rows) ? "rows" : divides(vector->cols) && vector->rows == 1 ? "cols" : "";
  }
  return "";
}

// By the names of operators and kernels in PyTorch and NCCL.
bool GrowsAsAWhole(const GraphNode& node) {
  constexpr std::array<std::string_view, 6> kOfParameters = {"_foreach_", "_fused_adam",  "_fused_sgd",
                                                             "Optimizer", "multi_tensor", "nccl"};
  return node.kernel.op() == Op::kCustom && std::ranges::none_of(kOfParameters, [&](std::string_view word) {
           return node.source_op.find(word) != std::string::npos || node.kernel.name.find(word) != std::string::npos;
         });
}

}  // namespace

absl::Status MakeBatchSymbolic(Graph& graph, std::int64_t traced) {
  if (traced < 1) return InvalidArgument("--traced-batch: must be at least 1");
  if (!graph.symbols.empty())
    return InvalidArgument("--traced-batch: the model has symbols ({}); it is of a trace", graph.symbols.front().name);
  const std::int64_t tokens = TokensOf(graph);
  const std::set<std::int64_t> parameters = ParameterSizes(graph, tokens);
  const SymInt batch = SymInt::Symbol(std::string(kBatch));
  std::int64_t constant = 0;
  for (GraphNode& node : graph.nodes) {
    if (GrowsAsAWhole(node)) {
      for (const std::string_view dim : {"flops", "bytes"}) {
        const std::int64_t value = DimOf(node, dim).constant().value_or(0);
        // A product of the two must not leave 64 bits.
        const SymInt each = value % traced == 0 ? SymInt(value / traced) : SymInt(value / traced + 1);
        if (value > 0) SetDimOf(node, dim, each * batch);
      }
      continue;
    }
    const std::string_view dim = GrowingDim(node, traced, tokens, parameters);
    if (dim.empty()) {
      ++constant;
      continue;
    }
    SetDimOf(node, dim, DimOf(node, dim).constant().value_or(1) / traced * batch);
  }
  if (constant == static_cast<std::int64_t>(graph.nodes.size())) {
    return InvalidArgument("--traced-batch: no kernel has a dim that {} divides; give the batch that was traced",
                           traced);
  }
  graph.symbols.push_back({std::string(kBatch), traced});
  graph.warnings.push_back(
      fmt::format("traced at batch {}: of {} kernels {} do not grow with it", traced, graph.nodes.size(), constant));
  return Validate(graph);
}

}  // namespace gpueta
