#include "core/graph/passes/parallel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/passes/layers.h"
#include "core/graph/passes/rewriter.h"

namespace gpueta {
namespace {

// Collectives stand behind nodes whose output is known.
Extent OutputOf(const GraphNode& node) { return OutputExtent(node).value_or(Extent{1, 1}); }

// Activations keep 16 bits where weights have fewer.
DType ActivationType(DType dtype) { return BitsOf(dtype).activation < 32 ? DType::kBf16 : dtype; }

GraphNode CollectiveNode(const GraphNode& behind, std::string_view op, const Extent& shape, std::int64_t ranks) {
  GraphNode node;
  node.kernel.name = fmt::format("{}.{}", behind.kernel.name, op);
  node.kernel.dtype = behind.kernel.dtype == DType::kFp32 || behind.kernel.dtype == DType::kFp16
                          ? behind.kernel.dtype
                          : ActivationType(behind.kernel.dtype);
  node.kernel.work = Collective{.op = std::string(op), .backend = std::string(kCollectiveBackend)};
  node.source_op = op;
  node.layer = behind.layer;
  node.turn = behind.turn;
  node.stage = behind.stage;
  SetDimOf(node, "bytes", shape.rows * shape.cols * (BitsOf(node.kernel.dtype).activation / 8));
  SetDimOf(node, "ranks", ranks);
  return node;
}

void Divide(GraphNode& node, std::string_view dim, std::int64_t ranks) {
  SetDimOf(node, dim, CeilDiv(DimOf(node, dim), ranks));
}

absl::Status SplitHeads(GraphNode& node, std::int64_t ranks) {
  if (node.kernel.op() != Op::kAttention) {
    Divide(node, node.kernel.op() == Op::kGemm ? "batch" : "rows", ranks);
    return absl::OkStatus();
  }
  const SymInt heads = DimOf(node, "heads");
  const SymInt kv_heads = DimOf(node, "kv_heads");
  if (heads.constant().value_or(0) % ranks != 0) {
    return InvalidArgument("--tp: {} does not divide the {} attention heads", ranks, heads.ToString());
  }
  // Fewer heads of keys and values than ranks are copied to each that needs them.
  SetDimOf(node, "heads", *heads.constant() / ranks);
  SetDimOf(node, "kv_heads", std::max<std::int64_t>(kv_heads.constant().value_or(1) / ranks, 1));
  return absl::OkStatus();
}

absl::Status SplitExperts(GraphNode& node, const Parallelism& ranks) {
  const std::int64_t experts = DimOf(node, "num_experts").constant().value_or(1);
  const std::int64_t width = DimOf(node, "inter_size").constant().value_or(1);
  const std::int64_t tensor = std::max<std::int64_t>(ranks.tensor / ranks.expert, 1);
  if (experts % ranks.expert != 0) {
    return InvalidArgument("--ep: {} does not divide the {} experts", ranks.expert, experts);
  }
  if (width % tensor != 0) {
    return InvalidArgument("--tp: {} does not divide the experts' width {}", tensor, width);
  }
  SetDimOf(node, "tp", tensor);
  SetDimOf(node, "ep", ranks.expert);
  return absl::OkStatus();
}

std::int64_t ShareOf(const GraphNode& node, const Parallelism& ranks) {
  switch (node.split) {
    case Split::kWhole: return 1;
    case Split::kExperts: return std::max(ranks.tensor, ranks.expert);
    default: return ranks.tensor;
  }
}

// What every rank does of the layers, row by row.
std::vector<char> SharedRowsOf(const Graph& graph) {
  std::vector<char> shared;
  bool begun = false;
  for (const GraphNode& node : graph.nodes) {
    begun = begun || node.layer >= 0;
    shared.push_back(begun && node.split == Split::kWhole && node.kernel.op() == Op::kVector);
  }
  return shared;
}

// Sequence parallelism: outputs of which each rank has some rows, and their gathers.
class Rows {
 public:
  Rows(Rewriter& rewriter, std::vector<char> shared, std::int64_t ranks)
      : rewriter_(rewriter),
        shared_(std::move(shared)),
        scattered_(shared_),
        gathered_(shared_.size(), -1),
        ranks_(ranks) {}

  bool AreShared(std::size_t i) const { return shared_[i] != 0; }
  void Scatter(std::size_t i) { scattered_[i] = 1; }
  // Gathers what node i reads; to be called in front of it.
  void GatherInputsOf(std::size_t i) {
    for (const int input : rewriter_.old(i).inputs) {
      const auto at = static_cast<std::size_t>(input);
      if (scattered_[at] == 0 || gathered_[at] >= 0) continue;
      GraphNode gather = CollectiveNode(rewriter_.old(at), "all_gather", OutputOf(rewriter_.old(at)), ranks_);
      gather.inputs = {rewriter_.Now(at)};
      gathered_[at] = rewriter_.Append(std::move(gather));
    }
  }
  void ReadGathered(std::size_t i, int now) {
    for (const int input : rewriter_.old(i).inputs) {
      const auto at = static_cast<std::size_t>(input);
      if (gathered_[at] >= 0) rewriter_.ReplaceInput(now, rewriter_.Now(at), gathered_[at]);
    }
  }

 private:
  Rewriter& rewriter_;
  std::vector<char> shared_;
  std::vector<char> scattered_;
  std::vector<int> gathered_;
  std::int64_t ranks_;
};

bool HasTokens(const GraphNode& node) { return node.kernel.op() == Op::kMoe || node.kernel.op() == Op::kGemm; }

}  // namespace

absl::Status SplitTensors(Graph& graph, const Parallelism& ranks, bool sequence) {
  if (ranks.tensor == 1 && ranks.expert == 1) return absl::OkStatus();
  const bool splits = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                  [](const GraphNode& node) { return node.split != Split::kWhole; });
  if (!splits) {
    return InvalidArgument("--tp, --ep: the model does not say how its layers split; give a config.json");
  }
  const bool experts = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                   [](const GraphNode& node) { return node.split == Split::kExperts; });
  if (ranks.expert > 1 && !experts) return InvalidArgument("--ep: the model has no experts to spread");
  const double bytes_each =
      graph.parameters > 0 ? static_cast<double>(graph.parameter_bytes) / static_cast<double>(graph.parameters) : 0;
  double saved = 0;
  sequence = sequence && ranks.tensor > 1;
  std::vector<char> shared(graph.nodes.size());
  if (sequence) shared = SharedRowsOf(graph);
  Rewriter rewriter(graph);
  Rows rows(rewriter, std::move(shared), ranks.tensor);
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    GraphNode node = rewriter.old(i);
    const Extent whole = OutputOf(node);
    const std::int64_t share = ShareOf(node, ranks);
    saved += static_cast<double>(node.parameters) * (1 - 1 / static_cast<double>(share));
    node.parameters /= share;
    const Split split = node.split;
    const bool exchanges = split == Split::kExperts && ranks.expert > ranks.tensor;
    if (exchanges) {
      GraphNode dispatch = CollectiveNode(node, "alltoall", whole, ranks.expert);
      SetDimOf(dispatch, "bytes", DimOf(dispatch, "bytes") * DimOf(node, "top_k"));
      for (int& input : node.inputs) dispatch.inputs.push_back(rewriter.Now(static_cast<std::size_t>(input)));
      rewriter.Append(dispatch);
    }
    switch (split) {
      case Split::kWhole:
        if (rows.AreShared(i)) Divide(node, "rows", ranks.tensor);
        break;
      case Split::kColumns:
        if (ranks.tensor > 1) Divide(node, node.kernel.op() == Op::kGemm ? "n" : "cols", ranks.tensor);
        break;
      case Split::kRows:
        if (ranks.tensor > 1) Divide(node, "k", ranks.tensor);
        break;
      case Split::kHeads:
        if (ranks.tensor > 1) GPUETA_RETURN_IF_ERROR(SplitHeads(node, ranks.tensor));
        break;
      case Split::kExperts: GPUETA_RETURN_IF_ERROR(SplitExperts(node, ranks)); break;
    }
    if (!rows.AreShared(i)) rows.GatherInputsOf(i);
    const int now = rewriter.Keep(i, node);
    if (!rows.AreShared(i)) rows.ReadGathered(i, now);
    GraphNode behind;
    if (exchanges) {
      behind = CollectiveNode(node, "alltoall", whole, ranks.expert);
      SetDimOf(behind, "bytes", DimOf(behind, "bytes") * DimOf(node, "top_k"));
    } else if (HasTokens(node) && (split == Split::kRows || split == Split::kExperts) && ranks.tensor > 1) {
      const bool scatters = sequence && rewriter.readers(i) > 0;
      behind = CollectiveNode(node, scatters ? "reduce_scatter" : "all_reduce", whole, ranks.tensor);
      if (scatters) rows.Scatter(i);
    } else if (node.kernel.op() == Op::kGemm && split == Split::kColumns && rewriter.readers(i) == 0 &&
               ranks.tensor > 1) {
      behind = CollectiveNode(node, "all_gather", whole, ranks.tensor);
    } else {
      continue;
    }
    behind.inputs = {now};
    rewriter.Replace(i, rewriter.Append(std::move(behind)));
  }
  rewriter.Finish();
  graph.parameter_bytes -= std::min(static_cast<std::int64_t>(saved * bytes_each), graph.parameter_bytes);
  graph.parameters -= std::min(static_cast<std::int64_t>(saved), graph.parameters);
  return absl::OkStatus();
}

namespace {

// A send of what passes a cut to the next stage.
GraphNode SendOf(const Rewriter& rewriter, const std::vector<std::size_t>& crossing, int stage, std::int64_t stride) {
  SymInt bytes = 0;
  std::vector<int> inputs;
  std::size_t behind = crossing.back();
  for (const std::size_t i : crossing) {
    const GraphNode& node = rewriter.old(i);
    if (node.costing == Costing::kFree) continue;
    const Extent out = OutputOf(node);
    bytes = bytes + out.rows * out.cols * (BitsOf(node.kernel.dtype).output / 8);
    inputs.push_back(rewriter.Now(i));
    behind = i;
  }
  GraphNode send = CollectiveNode(rewriter.old(behind), "send_recv", OutputOf(rewriter.old(behind)), 2);
  SetDimOf(send, "bytes", bytes);
  send.stage = stage;
  std::get<Collective>(send.kernel.work).stride = stride;
  send.inputs = std::move(inputs);
  return send;
}

// Stages of a graph that does not say what its layers are: about equal work each.
absl::Status SplitByWork(Graph& graph, std::int64_t stages, std::int64_t stride) {
  absl::StatusOr<std::vector<std::size_t>> cuts = BalancedCuts(graph, stages);
  if (!cuts.ok()) return Prefixed(cuts.status(), "--pp");
  std::vector<std::vector<std::size_t>> crossing;
  for (const std::size_t cut : *cuts) crossing.push_back(CrossingAt(graph, cut));
  Rewriter rewriter(graph);
  std::size_t stage = 0;
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    if (stage < cuts->size() && (*cuts)[stage] == i) {
      if (!crossing[stage].empty()) {
        const int send = rewriter.Append(SendOf(rewriter, crossing[stage], static_cast<int>(stage), stride));
        for (const std::size_t sent : crossing[stage]) rewriter.Replace(sent, send);
      }
      ++stage;
    }
    GraphNode placed = rewriter.old(i);
    placed.stage = static_cast<int>(stage);
    rewriter.Keep(i, std::move(placed));
  }
  rewriter.Finish();
  return absl::OkStatus();
}

// Stages of about as many layers each.
absl::Status SplitByLayers(Graph& graph, std::int64_t stages, std::int64_t stride) {
  // Layers in the order they run; a stack starts over at 0.
  std::int64_t layers = 0;
  int last = -1;
  for (const GraphNode& node : graph.nodes) {
    if (node.layer >= 0 && node.layer != last) ++layers;
    last = node.layer;
  }
  if (layers < stages) return InvalidArgument("--pp: {} stages for {} layers", stages, layers);
  Rewriter rewriter(graph);
  std::int64_t begun = 0;
  last = -1;
  int next_stage = 1;
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    const GraphNode& node = rewriter.old(i);
    if (node.layer >= 0 && node.layer != last) {
      if (begun * stages >= next_stage * layers && i > 0) {
        // The activations between two layers are the last output.
        GraphNode send = CollectiveNode(rewriter.old(i - 1), "send_recv", OutputOf(rewriter.old(i - 1)), 2);
        send.stage = next_stage - 1;
        std::get<Collective>(send.kernel.work).stride = stride;
        send.inputs = {rewriter.Now(i - 1)};
        rewriter.Replace(i - 1, rewriter.Append(std::move(send)));
        ++next_stage;
      }
      ++begun;
    }
    last = node.layer;
    GraphNode placed = node;
    placed.stage = next_stage - 1;
    rewriter.Keep(i, std::move(placed));
  }
  rewriter.Finish();
  return absl::OkStatus();
}

}  // namespace

absl::Status SplitStages(Graph& graph, std::int64_t stages, std::int64_t stride) {
  if (stages == 1) return absl::OkStatus();
  if (stages > kMaxStages) return InvalidArgument("--pp: {} stages; at most {}", stages, kMaxStages);
  GPUETA_RETURN_IF_ERROR(HasLayers(graph) ? SplitByLayers(graph, stages, stride) : SplitByWork(graph, stages, stride));
  graph.parameter_bytes = (graph.parameter_bytes + stages - 1) / stages;
  graph.parameters = (graph.parameters + stages - 1) / stages;
  return absl::OkStatus();
}

}  // namespace gpueta
