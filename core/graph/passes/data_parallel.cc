#include "core/graph/passes/data_parallel.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/passes/parallel.h"
#include "core/graph/passes/rewriter.h"
#include "core/graph/passes/training.h"

namespace gpueta {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

bool IsOptimiser(const GraphNode& node) { return node.source_op == kOptimiserOp; }

// How a step's tensors are exchanged.
struct Exchange {
  DataParallelism data;
  double parameter_bytes;  // of one
  double gradient_bytes;
  DType dtype;

  GraphNode Node(std::string_view op, std::string name, double bytes, Turn turn, int stage) const {
    GraphNode node;
    node.kernel.name = std::move(name);
    node.kernel.dtype = dtype;
    node.kernel.work = Collective{.op = std::string(op),
                                  .backend = std::string(kCollectiveBackend),
                                  .bytes = std::max<std::int64_t>(static_cast<std::int64_t>(bytes), 1),
                                  .ranks = data.ranks,
                                  .stride = data.stride};
    node.source_op = op;
    node.stream = DeviceStream::kCommunication;
    node.turn = turn;
    node.stage = stage;
    return node;
  }
};

// Elements of gradients by node, in order, without those that a later node
// completes: a parameter that two nodes read has one gradient.
std::vector<std::int64_t> GradientsOf(const Graph& graph) {
  std::vector<std::int64_t> gradients;
  std::int64_t sum = 0;
  std::size_t last = 0;
  for (const GraphNode& node : graph.nodes) {
    gradients.push_back(node.gradients);
    sum += node.gradients;
    if (node.turn == Turn::kBackward && (node.gradients > 0 || sum == 0)) last = gradients.size() - 1;
  }
  std::int64_t twice = sum - graph.parameters * StagesOf(graph);
  if (twice < 0) gradients[last] -= twice;  // parameters that no node says it reads
  for (std::int64_t& elements : gradients) {
    const std::int64_t later = std::clamp<std::int64_t>(twice, 0, elements);
    elements -= later;
    twice -= later;
  }
  return gradients;
}

// Buckets of gradients behind the kernels that complete them.
class Buckets {
 public:
  Buckets(Rewriter& rewriter, const Exchange& exchange) : rewriter_(rewriter), exchange_(exchange) {}

  void Add(int stage, std::int64_t elements, int node) {
    Bucket& bucket = open_[stage];
    bucket.bytes += static_cast<double>(elements) * exchange_.gradient_bytes;
    if (elements > 0) bucket.nodes.push_back(node);
    const bool by_units = exchange_.data.zero_stage == 3;
    if (!by_units && bucket.bytes >= static_cast<double>(exchange_.data.bucket_bytes)) Close(stage);
  }
  void Close(int stage) {
    const Bucket bucket = std::exchange(open_[stage], {});
    if (bucket.nodes.empty()) return;
    const bool shared = exchange_.data.zero_stage > 0;
    GraphNode node = exchange_.Node(shared ? "reduce_scatter" : "all_reduce", "gradients", bucket.bytes,
                                    exchange_.data.zero_stage >= 2 ? Turn::kBackward : Turn::kStep, stage);
    node.inputs = bucket.nodes;
    last_[stage].push_back(rewriter_.Append(std::move(node)));
  }
  // What the stage's optimiser waits for.
  const std::vector<int>& Exchanged(int stage) { return last_[stage]; }

 private:
  struct Bucket {
    double bytes = 0;
    std::vector<int> nodes;
  };
  Rewriter& rewriter_;
  const Exchange& exchange_;
  std::map<int, Bucket> open_;
  std::map<int, std::vector<int>> last_;
};

// The units whose parameters are gathered together: nodes of one layer, turn and
// stage that stand next to each other; outside of layers as many as fill a bucket.
std::vector<int> UnitsOf(const Graph& graph, const std::vector<std::int64_t>& elements, double bytes_each,
                         std::int64_t bucket_bytes) {
  std::vector<int> units;
  int unit = -1;
  double bytes = 0;
  const GraphNode* before = nullptr;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const double more = static_cast<double>(elements[i]) * bytes_each;
    const bool other =
        before == nullptr || before->layer != node.layer || before->turn != node.turn || before->stage != node.stage;
    const bool full = node.layer < 0 && bytes > 0 && bytes + more > static_cast<double>(bucket_bytes);
    if (other || full) {
      ++unit;
      bytes = 0;
    }
    bytes += more;
    units.push_back(unit);
    before = &node;
  }
  return units;
}

// Stage 3: parameters gathered unit by unit in front of their kernels.
class Gathers {
 public:
  Gathers(Rewriter& rewriter, const Exchange& exchange, const std::vector<int>& units,
          const std::vector<std::int64_t>& elements)
      : rewriter_(rewriter), exchange_(exchange), units_(units) {
    for (std::size_t i = 0; i < units.size(); ++i)
      bytes_[units[i]] += static_cast<double>(elements[i]) * exchange.parameter_bytes;
  }

  // To be called in front of each node; returns what the node must wait for, or -1.
  int Before(std::size_t i) {
    const GraphNode& node = rewriter_.old(i);
    const int unit = units_[i];
    if (unit != unit_) {
      unit_ = unit;
      gathered_ = -1;
      if (bytes_[unit] > 0) {
        GraphNode gather = exchange_.Node("all_gather", "parameters", bytes_[unit], node.turn, node.stage);
        // Not before the unit in front of the last one is over: what is gathered takes memory.
        if (ends_.size() > 1) gather.inputs = {ends_[ends_.size() - 2]};
        gathered_ = rewriter_.Append(std::move(gather));
        ends_.push_back(-1);
      }
    }
    return gathered_;
  }
  void After(int now) {
    if (gathered_ >= 0) ends_.back() = now;
  }

 private:
  Rewriter& rewriter_;
  const Exchange& exchange_;
  const std::vector<int>& units_;
  std::map<int, double> bytes_;
  int unit_ = -1;
  int gathered_ = -1;
  std::vector<int> ends_;  // the last node of each unit so far that was gathered
};

}  // namespace

absl::Status DivideBatch(Graph& graph, std::int64_t shares) {
  if (shares == 1) return absl::OkStatus();
  const auto has_batch = [](const Graph::Symbol& symbol) { return symbol.name == "batch"; };
  if (std::ranges::none_of(graph.symbols, has_batch)) {
    return InvalidArgument(
        "--dp, --microbatches: the model's batch is fixed and cannot be divided; give a config.json, or a file with "
        "a symbolic batch");
  }
  const auto divide = [&](const SymInt& value) {
    return Replace(value, "batch", CeilDiv(SymInt::Symbol("batch"), shares));
  };
  for (GraphNode& node : graph.nodes) {
    for (GraphNode::SymbolicDim& dim : node.symbolic_dims) dim.value = divide(dim.value);
  }
  graph.input_bytes = divide(graph.input_bytes);
  return absl::OkStatus();
}

absl::Status ShareOverRanks(Graph& graph, const DataParallelism& data) {
  if (data.ranks < 1 || data.ranks > kMostRanks) return InvalidArgument("--dp: must be from 1 to {}", kMostRanks);
  if (data.zero_stage < 0 || data.zero_stage > 3) return InvalidArgument("--zero: must be from 0 to 3");
  if (data.bucket_bytes < 1) return InvalidArgument("--bucket-mb: must be above 0");
  if (data.ranks == 1) return absl::OkStatus();
  const bool trains =
      std::ranges::any_of(graph.nodes, [](const GraphNode& node) { return node.turn == Turn::kBackward; });
  if (!trains || graph.parameters == 0)
    return InvalidArgument("--dp: needs a training step of a model with parameters");
  const auto each = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(graph.parameters);
  };
  Exchange exchange{data, each(graph.parameter_bytes), each(graph.gradient_bytes), DType::kFp32};
  constexpr double kWide = 3;  // bytes: above 16 bits
  if (exchange.gradient_bytes < kWide) exchange.dtype = DType::kBf16;
  const std::vector<std::int64_t> gradients = GradientsOf(graph);
  const bool gathers = data.zero_stage == 3;
  // In the backward pass a unit needs what it has gradients of, in the forward pass what it reads.
  std::vector<std::int64_t> needs;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    needs.push_back(graph.nodes[i].turn == Turn::kForward ? graph.nodes[i].parameters : gradients[i]);
  const std::vector<int> units = UnitsOf(graph, needs, exchange.parameter_bytes, data.bucket_bytes);
  // The last gradient of each stage closes its bucket.
  std::map<int, std::size_t> last_gradient;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (gradients[i] > 0) last_gradient[graph.nodes[i].stage] = i;
  }
  Rewriter rewriter(graph);
  Buckets buckets(rewriter, exchange);
  Gathers parameters(rewriter, exchange, units, needs);
  for (std::size_t i = 0; i < rewriter.size(); ++i) {
    GraphNode node = rewriter.old(i);
    const int gathered = gathers && node.turn != Turn::kStep ? parameters.Before(i) : -1;
    const bool optimiser = IsOptimiser(node);
    if (optimiser && data.zero_stage > 0) SetDimOf(node, "rows", CeilDiv(DimOf(node, "rows"), data.ranks));
    const int now = rewriter.Keep(i, std::move(node));
    if (gathered >= 0) {
      rewriter.AddInput(now, gathered);
      parameters.After(now);
    }
    const int stage = rewriter.old(i).stage;
    if (gradients[i] > 0) buckets.Add(stage, gradients[i], now);
    const auto last = last_gradient.find(stage);
    const bool unit_ends = i + 1 == rewriter.size() || units[i + 1] != units[i];
    if ((last != last_gradient.end() && last->second == i) || (gathers && unit_ends)) buckets.Close(stage);
    if (!optimiser) continue;
    for (const int exchanged : buckets.Exchanged(stage)) rewriter.AddInput(now, exchanged);
    if (data.zero_stage == 1 || data.zero_stage == 2) {
      GraphNode gather =
          exchange.Node("all_gather", "parameters", static_cast<double>(graph.parameters) * exchange.parameter_bytes,
                        Turn::kStep, stage);
      gather.inputs = {now};
      rewriter.Append(std::move(gather));
    }
  }
  rewriter.Finish();
  const auto share = [&](std::int64_t bytes) { return (bytes + data.ranks - 1) / data.ranks; };
  if (data.zero_stage >= 1) graph.optimiser_bytes = share(graph.optimiser_bytes);
  if (data.zero_stage >= 2) graph.gradient_bytes = share(graph.gradient_bytes);
  if (data.zero_stage >= 3) graph.parameter_bytes = share(graph.parameter_bytes);
  return absl::OkStatus();
}

}  // namespace gpueta
