#include "core/graph/passes/layers.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace gpueta {
namespace {

// Of every symbol without a default. Shares of work hardly depend on it.
constexpr std::int64_t kNominalSize = 64;
// FLOPs for each byte that devices compute meanwhile: between fp32 and 16 bits of
// the catalogue's cards.
constexpr double kNominalRidge = 50;
// A cut may lie so much of a part's work from an even share.
constexpr double kMostUneven = 0.25;

bool Runs(const GraphNode& node) { return node.costing != Costing::kFree; }

// The last node that reads each node's output, through views, too; 0: none.
std::vector<std::size_t> LastReaders(const Graph& graph) {
  std::vector<std::size_t> last(graph.nodes.size());
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    for (const int input : graph.nodes[i].inputs) {
      std::size_t& of = last[static_cast<std::size_t>(input)];
      of = std::max(of, Runs(graph.nodes[i]) ? i : last[i]);
    }
  }
  return last;
}

}  // namespace

bool HasLayers(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const GraphNode& node) { return node.layer >= 0; });
}

std::vector<std::size_t> CrossingAt(const Graph& graph, std::size_t cut) {
  const std::vector<std::size_t> last = LastReaders(graph);
  // A view of nothing that runs is a constant.
  std::vector<char> is_data(cut);
  std::vector<std::size_t> crossing;
  for (std::size_t i = 0; i < cut; ++i) {
    is_data[i] = Runs(graph.nodes[i]) || std::ranges::any_of(graph.nodes[i].inputs, [&](int input) {
                   return is_data[static_cast<std::size_t>(input)] != 0;
                 });
    if (is_data[i] != 0 && last[i] >= cut) crossing.push_back(i);
  }
  return crossing;
}

absl::StatusOr<std::vector<std::size_t>> BalancedCuts(const Graph& graph, std::int64_t parts) {
  const auto kernels_that_run = std::ranges::count_if(graph.nodes, Runs);
  if (kernels_that_run < parts)
    return InvalidArgument("{} parts: the model has only {} kernels", parts, kernels_that_run);
  SymbolValues values;
  for (const Graph::Symbol& symbol : graph.symbols)
    values[symbol.name] = symbol.default_value > 0 ? symbol.default_value : kNominalSize;
  GPUETA_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, Bind(graph, values));
  const std::size_t n = graph.nodes.size();
  const std::vector<std::size_t> last = LastReaders(graph);
  // In front of each node: the work so far, and the bytes that pass.
  std::vector<double> work(n + 1), bytes(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    work[i + 1] = work[i];
    if (!Runs(graph.nodes[i])) continue;
    const Counts counts = CountsOf(kernels[i]);
    work[i + 1] +=
        static_cast<double>(counts.flops.value()) + kNominalRidge * static_cast<double>(counts.bytes().value());
    if (last[i] == 0) continue;
    bytes[i + 1] += static_cast<double>(counts.bytes_written.value());
    bytes[last[i] + 1] -= static_cast<double>(counts.bytes_written.value());
  }
  for (std::size_t i = 1; i <= n; ++i) bytes[i] += bytes[i - 1];
  const double share = work[n] / static_cast<double>(parts);
  std::vector<std::size_t> cuts;
  std::size_t kernels_before = 0;  // of the boundary looked at
  std::size_t next = 0;
  for (std::int64_t part = 1; part < parts; ++part) {
    const double even = static_cast<double>(part) * share;
    std::size_t best = 0;
    const auto distance = [&](std::size_t i) { return std::abs(work[i] - even); };
    const auto is_better = [&](std::size_t i) {
      if (best == 0) return true;
      const bool near = distance(i) <= kMostUneven * share, best_near = distance(best) <= kMostUneven * share;
      if (near != best_near) return near;
      if (near && bytes[i] != bytes[best]) return bytes[i] < bytes[best];
      return distance(i) < distance(best);
    };
    std::size_t before = kernels_before, at_best = kernels_before;
    for (std::size_t i = next + 1; i < n; ++i) {
      if (Runs(graph.nodes[i - 1])) ++before;
      // Each part runs something, this one and those behind it.
      if (before == kernels_before || !Runs(graph.nodes[i])) continue;
      if (kernels_that_run - static_cast<std::int64_t>(before) < parts - part) break;
      if (!is_better(i)) continue;
      best = i;
      at_best = before;
    }
    cuts.push_back(best);
    next = best;
    kernels_before = at_best;
  }
  return cuts;
}

absl::StatusOr<int> MarkLayers(Graph& graph) {
  const auto products = std::ranges::count_if(graph.nodes, [](const GraphNode& node) {
    const Op op = node.kernel.op();
    return Runs(node) && (op == Op::kGemm || op == Op::kConv2d || op == Op::kAttention || op == Op::kMoe);
  });
  const std::int64_t parts = std::max<std::int64_t>(std::llround(std::sqrt(static_cast<double>(products))), 2);
  GPUETA_ASSIGN_OR_RETURN(std::vector<std::size_t> cuts, BalancedCuts(graph, parts));
  for (std::size_t i = 1; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].stage != graph.nodes[i - 1].stage) cuts.push_back(i);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t i = 0, layer = 0; i < cuts.back(); ++i) {
    while (cuts[layer] <= i) ++layer;
    graph.nodes[i].layer = static_cast<int>(layer);
  }
  return static_cast<int>(cuts.size());
}

}  // namespace gpueta
